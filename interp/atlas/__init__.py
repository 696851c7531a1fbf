"""The atlas: one page to walk through a sweep, cell by cell, with the models themselves running in it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

BUNDLED = [  # two runs of every second d and p; and runs that were classified and verified
    Path(str(files("interp.figures") / "data" / "fig1.csv")),
    Path(str(files("interp.atlas") / "data" / "fig1-classified.csv")),
]
