"""`python -m counting_interp`, without the current folder on the import path: its files may be untrusted.

Python itself imports `runpy` and its dependencies before this file runs. In a folder that has a `runpy.py`, use the
command `interp`, or `python -P -m counting_interp` (Python 3.11 and later).
"""

import os
import sys

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not getattr(sys.flags, "safe_path", False) and sys.path[:1] not in ([], [_PACKAGE_FOLDER]):
    try:
        if sys.path[0] in ("", os.getcwd()):
            del sys.path[0]
    except OSError:  # the current folder was deleted
        pass

from counting_interp.interp.cli import main  # noqa: E402

main()
