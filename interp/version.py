"""Which version of the package this is."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    try:
        return installed("counting-interp")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"
