"""The paper's experiments as grids, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from interp.sweep.grid import GRID, Cell, Job
from models.config import VARIANTS

WITHOUT_ONE = GRID[1:]  # the published L = 15 and comparison figures leave out p = 1 and d = 1


@dataclass(frozen=True)
class Preset:
    """A grid and what it is for.

    Attributes:
        shows: the figure it makes, in a line.
    """

    shows: str
    T: int = 32
    L: int = 10
    n_layers: int = 1
    frozen: bool = False
    models: Sequence[str] = VARIANTS
    d: Sequence[int] = GRID
    p: Sequence[int] = GRID
    runs: int = 5
    epochs: int = 500
    sampler: str = "published"

    def jobs(self) -> list[Job]:
        """Every run of the grid; refuses values that no model can have."""
        if self.runs < 1:
            raise ValueError(f"a sweep needs at least one run per cell, got {self.runs}")
        if self.epochs < 1:
            raise ValueError(f"a run needs at least one epoch, got {self.epochs}")
        if not (self.models and self.d and self.p):
            raise ValueError("a sweep needs at least one model, one d and one p")
        cells = [
            Cell(model, self.T, self.L, d, p, self.n_layers, self.frozen, self.sampler, self.epochs)
            for model, d, p in product(dict.fromkeys(self.models), dict.fromkeys(self.d), dict.fromkeys(self.p))
        ]
        return [Job(cell, run) for cell in cells for run in range(self.runs)]


FIG1 = Preset("Fig. 1, where in (d, p) each model learns to count: T=32, L=10")
PRESETS = {
    "fig1": FIG1,
    "best": replace(FIG1, shows="best accuracy of any run and epoch; the runs of fig1"),
    "variability": replace(FIG1, shows="standard deviation over runs; the runs of fig1"),
    "random": replace(FIG1, shows="embeddings drawn once and not trained, to subtract from fig1", frozen=True),
    "T15": replace(FIG1, shows="a smaller alphabet, T=15", T=15),
    "T64": replace(FIG1, shows="a larger alphabet, T=64", T=64),
    "L5": replace(FIG1, shows="shorter sequences, L=5", L=5),
    "L15": replace(FIG1, shows="longer sequences, L=15", L=15, d=WITHOUT_ONE, p=WITHOUT_ONE),
    "L30": replace(FIG1, shows="sequences almost as long as the alphabet, L=30", L=30),
    "two-layers": replace(FIG1, shows="two layers, the second reading the first, to subtract from fig1", n_layers=2),
    "quick": replace(
        FIG1,
        shows="the shape of Fig. 1 in a few minutes: a coarse grid, one short run per cell",
        d=(2, 8, 32, 64),
        p=(2, 8, 32, 64),
        runs=1,
        epochs=100,
    ),
}
