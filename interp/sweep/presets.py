"""The paper's experiments as grids, by name, and coarse ones that take an hour instead of a night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from counting_interp.interp.sweep.grid import AXES, AXIS_TYPES, GRID, SweepCell, SweepJob
from counting_interp.models.config import VARIANTS
from counting_interp.util.tables import cell_value

WITHOUT_ONE = GRID[1:]  # the published L = 15 and comparison figures leave out p = 1 and d = 1
COARSE = (4, 8, 16, 32, 64, 128)
MAX_JOBS = 1_000_000
COARSE_WITH_45 = (2, 4, 8, 16, 32, 45, 64, 128)


@dataclass(frozen=True)
class Preset:
    """A grid and what it is for.

    Attributes:
        shows: the figure it makes, in a line.
        models, d, p: the axes of its pictures, all combinations.
        runs: in each cell.
        axes: the other axes of its cells; what is not named has its default, T = 32 and L = 10.
    """

    shows: str
    models: Sequence[str] = VARIANTS
    d: Sequence[int] = GRID
    p: Sequence[int] = GRID
    runs: int = 5
    axes: Mapping[str, Any] = field(default_factory=dict)

    def jobs(self) -> list[SweepJob]:
        """Every run of the grid; refuses values that no model can have."""
        if self.runs < 1:
            raise ValueError(f"a sweep needs at least one run per cell, got {self.runs}")
        if not (self.models and self.d and self.p):
            raise ValueError("a sweep needs at least one model, one d and one p")
        shared = {"T": 32, "L": 10, **self.axes}
        unknown = sorted(set(shared) - set(AXES) | set(shared) & {"model", "d", "p"})
        if unknown:
            others = ", ".join(axis for axis in AXES if axis not in ("model", "d", "p"))
            raise ValueError(f"axes that a sweep can set are {others}; got {unknown[0]!r}")
        if len(self.models) * len(self.d) * len(self.p) * self.runs > MAX_JOBS:
            raise ValueError(f"a sweep has at most {MAX_JOBS:,} runs; give fewer models, values of d and p, or runs")
        shared = {axis: cell_value(axis, AXIS_TYPES[axis], value) for axis, value in shared.items()}
        grid = product(dict.fromkeys(self.models), dict.fromkeys(self.d), dict.fromkeys(self.p))
        cells = [SweepCell(model=model, d=d, p=p, **shared) for model, d, p in grid]
        return [SweepJob(cell, run) for cell in cells for run in range(self.runs)]

    def on(self, shows: str, values: Sequence[int] | None = None, runs: int | None = None, **axes: Any) -> Preset:
        """The same with other values for d and p, and some other axes."""
        d, p = (self.d, self.p) if values is None else (values, values)
        return replace(self, shows=shows, d=d, p=p, runs=runs or self.runs, axes={**self.axes, **axes})


FIG1 = Preset("Fig. 1, where in (d, p) each model learns to count: T=32, L=10")
PRESETS = {
    "fig1": FIG1,
    "best": FIG1.on("best accuracy of any run and epoch; the runs of fig1"),
    "variability": FIG1.on("standard deviation over runs; the runs of fig1"),
    "random": FIG1.on("embeddings drawn once and not trained, to subtract from fig1", frozen=True),
    "T15": FIG1.on("a smaller alphabet, T=15", T=15),
    "T64": FIG1.on("a larger alphabet, T=64", T=64),
    "L5": FIG1.on("shorter sequences, L=5", L=5),
    "L15": FIG1.on("longer sequences, L=15", WITHOUT_ONE, L=15),
    "L30": FIG1.on("sequences almost as long as the alphabet, L=30", L=30),
    "two-layers": FIG1.on("two layers, the second reading the first, to subtract from fig1", n_layers=2),
    "coarse-paper": FIG1.on("Fig. 1 where training shows every count", COARSE_WITH_45, 1, sampler="paper"),
    "coarse-two-layers": FIG1.on("two layers on a coarse grid, one run per cell", COARSE, 1, n_layers=2),
    "coarse-T64": FIG1.on("T=64 on a coarse grid, one run per cell", COARSE, 1, T=64),
    "coarse-L15": FIG1.on("L=15 on a coarse grid, one run per cell", COARSE, 1, L=15),
    "coarse-random": FIG1.on("random embeddings on a coarse grid, one run per cell", COARSE, 1, frozen=True),
    "quick": FIG1.on("the shape of Fig. 1 in a few minutes: one short run per cell", (2, 8, 32, 64), 1, epochs=100),
}
