"""Writing a file so that a kill at any moment leaves the old one or the new one, never neither."""

from __future__ import annotations

import os
import tempfile
from glob import escape
from pathlib import Path

SUFFIX = ".tmp"


def write_atomically(path: str | Path, data: bytes) -> None:
    """Temp file in the same folder, flush, fsync, replace, fsync the folder."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target), suffix=SUFFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(path: str | Path) -> None:
    """Remove what writers of `path` left behind when they were killed. Only where nobody is writing to it now."""
    target = Path(path)
    for temporary in target.parent.glob(f"{escape(_prefix(target))}*{SUFFIX}"):
        temporary.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."
