"""Numbers, tables, durations and versions as text."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

PACKAGES = ("counting-interp", "torch", "transformer-lens", "numpy", "numba", "plotly")


def two_places(number: float) -> str:
    """`0.97`; what rounds to zero has no sign."""
    return f"{round(number, 2) + 0.0:.2f}"


def columns(rows: list[tuple[str, ...]]) -> str:
    """A table as text, each column as wide as its widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def duration(seconds: float) -> str:
    """`3 days`, `3 h 05 min`, `12 min`, `40 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes >= 2 * 24 * 60:
        return f"{minutes / (24 * 60):,.0f} days"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


@cache
def version() -> str:
    """The version of this package."""
    try:
        return installed("counting-interp")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"


def installed_versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Versions of Python, of this package, and of the packages its arithmetic depends on, without importing them."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = installed(name)
        except PackageNotFoundError:  # our own, run from a source tree that is not installed
            versions[name] = "unknown"
    return versions
