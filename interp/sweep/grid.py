"""Which runs a sweep has: cells of the (model, T, L, d, p, ...) space, several runs each, each with a seed of its own.

`SweepCell` is the one record of the axes. Names, seeds, the database's columns, the exported table, the settings of
figures and what the trainer gets derive from its fields. A new axis is one more field with a default. Where it has
the name of a field of `CountingConfig` or of `Recipe`, nothing else is needed. Names and seeds mention later axes only
where they differ from their default, so runs made before keep theirs. Their databases and tables still open.

`PRESETS` are the paper's experiments as grids, and coarse ones that take an hour instead of a night.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from counting_interp.models.config import SAMPLERS, VARIANTS, CountingConfig
from counting_interp.util.tables import cell_value

GRID = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)  # as trained by the authors; their paper prints 12 for 11
MAX_EPOCHS = 1_000_000
MAX_QK_SCALE = 1000
_FIRST = ("model", "T", "L", "d", "p", "n_layers", "frozen", "sampler", "epochs")  # in every name, in this order
_SAME_SEED = ("epochs", "qk_scale")  # axes that do not enter the seed
_ON_ONE_PICTURE = ("model", "d", "p")
_CONFIG_NAMES = {"frozen": "frozen_embeddings"}  # axes whose name in `CountingConfig` is another one
_WORDS: dict[str, Callable[[Any], str]] = {
    "n_layers": lambda n: f"{n} layers",
    "frozen": lambda frozen: "random embeddings" if frozen else "learned embeddings",
    "sampler": lambda sampler: f"{sampler} sampler",
    "epochs": lambda n: f"{n} epochs",
    "qk_scale": lambda scale: f"W_Q and W_K x {scale:g} at the start",
}


@dataclass(frozen=True)
class SweepCell:
    """One point of a sweep: everything that fixes a run but its seed.

    Models have L + 1 classes as in the published code, so that parameter counts agree with the published ones.
    """

    model: str
    T: int
    L: int
    d: int
    p: int
    n_layers: int = 1
    frozen: bool = False
    sampler: str = "published"
    epochs: int = 500
    qk_scale: float = 1.0

    def __post_init__(self) -> None:
        self.config(seed=0)
        if self.sampler not in SAMPLERS:
            raise ValueError(f"the sampler must be one of {', '.join(SAMPLERS)}, got {self.sampler!r}")
        if self.epochs < 1:
            raise ValueError(f"a run needs at least one epoch, got {self.epochs}")
        if self.epochs > MAX_EPOCHS:
            raise ValueError(f"a run has at most {MAX_EPOCHS:,} epochs, got {self.epochs}")
        if not 0 <= self.qk_scale < MAX_QK_SCALE:
            raise ValueError(f"qk_scale must be at least 0 and below {MAX_QK_SCALE}, got {self.qk_scale}")

    def config(self, seed: int) -> CountingConfig:
        known = {field.name for field in dataclasses.fields(CountingConfig)}
        named = {_CONFIG_NAMES.get(axis, axis): value for axis, value in dataclasses.asdict(self).items()}
        sizes = {name: value for name, value in named.items() if name in known}
        return CountingConfig.parse(self.model, **sizes, n_classes=self.L + 1, seed=seed)

    @property
    def setting(self) -> Setting:
        return Setting(tuple((axis, getattr(self, axis)) for axis in AXES if axis not in _ON_ONE_PICTURE))

    @property
    def label(self) -> str:
        """`bos+sftm d=45 p=2`, and the axes that are not as in Fig. 1."""
        quiet = {"sampler", "epochs"}
        unusual = [words for axis, words in self.setting.unusual(T=32, L=10) if axis not in quiet]
        return " ".join([self.model, f"d={self.d}", f"p={self.p}", *unusual])


AXES = tuple(field.name for field in dataclasses.fields(SweepCell))
AXIS_TYPES = {field.name: str(field.type) for field in dataclasses.fields(SweepCell)}
AXIS_DEFAULTS = {
    field.name: field.default for field in dataclasses.fields(SweepCell) if field.default is not dataclasses.MISSING
}


@dataclass(frozen=True)
class Setting:
    """What all cells of one picture share: every axis but model, d and p, with its value."""

    values: tuple[tuple[str, Any], ...]

    def __getitem__(self, axis: str) -> Any:
        return dict(self.values)[axis]

    def changed(self, **axes: Any) -> Setting:
        return Setting(tuple((axis, axes.get(axis, value)) for axis, value in self.values))

    def unusual(self, **usual: Any) -> list[tuple[str, str]]:
        """The axes that are not what they are by default (or as `usual` says), with words for them."""
        expected = {**AXIS_DEFAULTS, **usual}
        return [(axis, _words(axis, value)) for axis, value in self.values if value != expected.get(axis, object())]

    @property
    def slug(self) -> str:
        """For file names: what is usual is left out."""
        parts = [f"T{self['T']}", f"L{self['L']}"]
        parts += [_slug(axis, self[axis]) for axis, _ in self.unusual() if axis not in ("T", "L")]
        return "_".join(parts)

    @property
    def label(self) -> str:
        """For captions."""
        always = [f"T = {self['T']}, L = {self['L']}", _words("epochs", self["epochs"])]
        always.append(_words("sampler", self["sampler"]))
        others = [words for axis, words in self.unusual() if axis not in ("T", "L", "epochs", "sampler")]
        return ", ".join(always + others)


@dataclass(frozen=True)
class SweepJob:
    """One training run: a cell and the index of the run in it."""

    cell: SweepCell
    run: int

    @property
    def job(self) -> SweepJob:
        """Itself: every task of a sweep, this one and others, has the job it belongs to."""
        return self

    @property
    def name(self) -> str:
        """Unique, and a file name."""
        cell = self.cell
        first = [cell.model, *(_slug(axis, getattr(cell, axis)) for axis in _FIRST[1:])]
        return "_".join([*first, *(_slug(*pair) for pair in self._later()), f"run{self.run}"])

    @property
    def seed(self) -> int:
        """From the cell and the run alone: the same whatever else is in the sweep and wherever it runs.

        The number of epochs does not enter, so a shorter run is the beginning of the longer one. Nor does the scale of
        queries and keys, so runs at two scales begin from the same draw and see the same sequences.
        """
        first = [getattr(self.cell, axis) for axis in _FIRST if axis not in _SAME_SEED]
        facts = [*first, self.run, *(pair for pair in self._later() if pair[0] not in _SAME_SEED)]
        return int.from_bytes(hashlib.sha256(json.dumps(facts).encode()).digest()[:6], "big")

    def _later(self) -> list[tuple[str, Any]]:
        """Axes that were added later, where they differ from their default."""
        pairs = ((axis, getattr(self.cell, axis)) for axis in AXES if axis not in _FIRST)
        return [(axis, value) for axis, value in pairs if value != AXIS_DEFAULTS[axis]]

    def config(self) -> CountingConfig:
        return self.cell.config(self.seed)


def read_cell(values: Mapping[str, Any]) -> SweepCell:
    """The cell in a row of a table or a database, where values may be text; a missing axis has its default.

    Raises:
        ValueError: naming the axis, for what no model can have.
    """
    read = {axis: cell_value(axis, AXIS_TYPES[axis], values[axis]) for axis in AXES if axis in values}
    missing = [axis for axis in AXES if axis not in read and axis not in AXIS_DEFAULTS]
    if missing:
        raise ValueError(f"the axis {missing[0]} is missing")
    return SweepCell(**read)


def ordered(jobs: Iterable[SweepJob]) -> list[SweepJob]:
    """First runs of all cells before second runs, each round shuffled by hash.

    So a sweep that is stopped half-way has covered its grid evenly. Slow and fast cells are mixed, so the time left is
    estimated well.
    """
    return sorted(jobs, key=lambda job: (job.run, hashlib.sha256(job.name.encode()).digest()))


def cost(cell: SweepCell) -> float:
    """Expected time of a run in arbitrary units, from operations per step: per-vocabulary products in d, and
    per-row products in p. A rough guess, not a fit; only ratios matter."""
    vocab, rows = cell.T + 1, 100 * cell.L / 10
    vocabulary = 0 if cell.model.startswith("lin") else 6 * vocab * cell.d * (2 * cell.d + vocab)
    products = 6 * vocab * cell.d * cell.p + rows * cell.p * (6 * (cell.L + 1) + 4 * cell.L)
    return cell.epochs * cell.n_layers * (300_000 + vocabulary + products) / 1e6


def seconds_left(
    spent: Sequence[tuple[SweepCell, float]],
    left: Sequence[SweepCell],
    workers: int,
    cost: Callable[[SweepCell], float] = cost,
) -> float | None:
    """What the cells `left` will take, judged by the (cell, seconds) pairs measured so far; None if there are none."""
    expected = sum(cost(cell) for cell, _ in spent)
    if not expected:
        return None
    return sum(seconds for _, seconds in spent) / expected * sum(map(cost, left)) / workers


def _words(axis: str, value: Any) -> str:
    return _WORDS[axis](value) if axis in _WORDS else f"{axis}={value}"


def _slug(axis: str, value: Any) -> str:
    """An axis in a file name: `T32`, `layers2`, `random`, `published`, `epochs500`; `heads-4` for later ones."""
    if axis == "frozen":
        return "random" if value else "learned"
    if axis == "sampler":
        return str(value)
    if axis in _FIRST:
        return f"{axis.removeprefix('n_')}{value}"
    return f"{axis}-{value}"


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
