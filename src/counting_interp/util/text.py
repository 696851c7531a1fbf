"""Numbers, tables, durations, models and versions as text."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

PACKAGES = ("counting-interp", "torch", "transformer-lens", "numpy", "numba", "plotly")


def two_places(number: float) -> str:
    """`0.97`; zero has no sign."""
    return f"{round(number, 2) + 0.0:.2f}"


def percent(share: float, digits: int = 1) -> str:
    """`99.9 %`, rounded down, so that only a share of 1 is 100 %."""
    scale = 10**digits
    return f"{math.floor(share * 100 * scale + 1e-9) / scale:.{digits}f} %" if share < 1 else "100 %"


def percent_range(low: float, high: float) -> str:
    """`66 to 86 %`, each end to the nearest percent."""
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def sampled(share: float) -> str:
    """A share of a sample: `99.4 %`, rounded down; `> 99.9 %` for 1, since a larger sample may have a miss."""
    return "> 99.9 %" if share == 1 else percent(share)


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


def describe(spec: Any) -> str:
    """A model in one phrase: `bos+sftm, T=32, L=10, d=45, p=2`, and its layers if it has more than one."""
    layers = "" if spec.n_layers == 1 else f", {spec.n_layers} layers"
    return f"{spec.name}, T={spec.T}, L={spec.L}, d={spec.d}, p={spec.p}{layers}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean attention?`, or all known names if none is near."""
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.4)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"


@cache
def version() -> str:
    """The version of this package."""
    try:
        return installed("counting-interp")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"


def installed_versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Versions of Python and of `packages`, without importing them."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = installed(name)
        except PackageNotFoundError:  # for example ours, run from a source tree
            versions[name] = "unknown"
    return versions
