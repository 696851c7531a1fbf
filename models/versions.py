"""Which versions made a number: of Python, of this package, and of those that its arithmetic depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("counting-interp", "torch", "transformer-lens", "numpy", "numba", "plotly")


def installed_versions() -> dict[str, str]:
    """By name, without importing any of them; `unknown` for what is not installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # our own, run from a source tree that is not installed
            versions[name] = "unknown"
    return versions
