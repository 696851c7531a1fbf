"""The table of the paper's figures: what ours is drawn from, what differs, and what the paper says.

`python -m scripts.map_facts --publish docs` writes it into docs/reproduction.md. Numbers come from the bundled tables.
Differences are written here by hand.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from counting_interp.data import language_models, published
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.figures.paper_panels import SIZES, curves, spectra
from counting_interp.interp.sweep.statistics import SOLVED, CellStatistics, by_cell, mechanisms
from counting_interp.interp.sweep.table import RunRow

HEAD = ("figure", "drawn from", "differs from its caption", "published, or what the paper says", "ours")
SPECTRA_HEAD = ("model", "published runs", "median drop at T (range)", "our runs", "median drop at T (range)")
CELLS = 14 * 14  # cells of a model in the published figures
DIP = 5.0  # points by which accuracy falls and rises again along d
Cells = Sequence[CellStatistics]


@dataclass(frozen=True)
class Tables:
    """The bundled cells of Fig. 1 (`usual`) and of the setting of a figure (`here`)."""

    usual: Cells
    here: Cells

    @property
    def both(self) -> list[tuple[CellStatistics, CellStatistics]]:
        """Pairs of a cell of Fig. 1 and the same cell in this setting."""
        theirs = {_cell_key(cell): cell for cell in self.usual}
        return [(theirs[_cell_key(cell)], cell) for cell in self.here if _cell_key(cell) in theirs]

    @property
    def difference(self) -> float:
        return fmean(cell.mean - usual.mean for usual, cell in self.both)


def _cell_key(cell: CellStatistics) -> tuple[str, int, int]:
    return cell.cell.model, cell.cell.d, cell.cell.p


def points(tables: Tables) -> str:
    return f"{tables.difference:+.1f} points in {len(tables.both)} cells"


def solved(tables: Tables) -> str:
    """Cells with a run at 99 % at some epoch, where d and p reach T and where they do not."""
    wide = [cell for cell in tables.here if min(cell.cell.d, cell.cell.p) >= cell.cell.T]
    narrow = [cell for cell in tables.here if cell not in wide]
    numbers = [f"{sum(c.best >= SOLVED for c in group)} of {len(group)}" for group in (wide, narrow)]
    return f"99 % at some epoch in {numbers[0]} cells with d, p >= T, in {numbers[1]} others"


def dips(tables: Tables) -> str:
    lines: defaultdict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for cell in tables.here:
        lines[cell.cell.model, cell.cell.p][cell.cell.d] = cell.mean
    long = [[line[d] for d in sorted(line)] for line in lines.values() if len(line) > 2]
    return f"{sum(map(dip, long))} of {len(long)} lines of fixed p dip by {DIP:g} points along d"


def dip(values: Sequence[float]) -> bool:
    """Whether accuracy falls by `DIP` points somewhere and later rises by as much."""
    return any(
        max(values[:i], default=value) - value >= DIP and max(values[i:]) - value >= DIP
        for i, value in enumerate(values)
    )


def layers(tables: Tables) -> str:
    best = [sum(cell.mean >= SOLVED for cell in side) for side in zip(*tables.both, strict=True)]
    return f"{points(tables)}; at 99 %: {best[1]} cells, with one layer {best[0]}"


def narrow(tables: Tables) -> str:
    """Accuracy lost with random embeddings, below d = T and above."""
    groups = [[(u.mean - c.mean) for u, c in tables.both if (c.cell.d < c.cell.T) == below] for below in (True, False)]
    below, above = (fmean(group) for group in groups)
    return f"learned minus random: {below:+.1f} points at d < T, {above:+.1f} at d >= T"


def drawn(cells: Cells) -> str:
    """Text such as `54 of 1,176 cells, one run each`."""
    runs = {cell.runs for cell in cells}
    alone = {1: "one run each", 2: "two runs each"}.get(max(runs), f"{max(runs)} runs each")
    number = alone if len(runs) == 1 else f"{min(runs)} to {max(runs)} runs each"
    every = 6 * CELLS
    return f"{'all' if len(cells) == every else f'{len(cells)} of'} {every:,} cells, {number}"


@dataclass(frozen=True)
class Row:
    """A figure drawn from a sweep: the setting of its cells, and what is compared."""

    figure: str
    differs: str
    says: str
    ours: Callable[[Tables], str]
    T: int = 32
    L: int = 10
    n_layers: int = 1
    frozen: bool = False

    def as_drawn(self, here: Cells, letters: bool) -> str:
        """What differs. Accuracies of one run a cell are drawn as tiles, with letters where mechanisms are known."""
        if not self.differs.startswith(FEWER) or min(cell.runs for cell in here) > 1:
            return self.differs
        return f"tiles: {self.differs}{'; letters: mechanisms' if letters else ''}"

    def cells(self, every: Cells) -> Cells:
        axes = (self.T, self.L, self.n_layers, self.frozen, "published")
        return [
            group
            for group in every
            if (group.cell.T, group.cell.L, group.cell.n_layers, group.cell.frozen, group.cell.sampler) == axes
        ]


FEWER = "fewer cells and runs"
SWEEPS = (
    Row("10 best accuracy", "best of two runs, not of five", "best of five", solved),
    Row(
        "11 variability",
        "standard deviation of two runs, not of five",
        "large for bos+sftm at p, d < T",
        lambda tables: "median {:.1f} points for bos+sftm at p, d < T, {:.1f} for the others".format(
            *(
                median(
                    cell.std or 0
                    for cell in tables.here
                    if max(cell.cell.p, cell.cell.d) < 32 and (cell.cell.model == "bos+sftm") == bos
                )
                for bos in (True, False)
            )
        ),
    ),
    Row(
        "12 random embeddings",
        f"tiles: {FEWER}; subtracted from two learned runs; no noise of 0.001",
        "worse where d < T",
        narrow,
        frozen=True,
    ),
    Row("15 T = 15", FEWER, "largely as the theory predicts", solved, T=15),
    Row("16 T = 64", FEWER, "largely as the theory predicts", solved, T=64),
    Row("17 L = 5", FEWER, "largely as the theory predicts", solved, L=5),
    Row("18 L = 15", FEWER, "only slightly worse than L = 10", points, L=15),
    Row(
        "19 L = 30",
        FEWER,
        "much deteriorated; seems to show double descent along d",
        lambda tables: f"{points(tables)}; {dips(tables)}",
        L=30,
    ),
    Row(
        "20, 21 two layers",
        f"{FEWER}; Fig. 21: two runs of one layer minus these; "
        "the second block reads the first (published: it does not); 500 epochs, not 1,000",
        "generally better, range slightly larger",
        layers,
        n_layers=2,
    ),
)


def figure_rows(runs: Sequence[RunRow]) -> list[tuple[str, ...]]:
    """The rows of the table, in order of figures."""
    every = by_cell(runs)
    usual = Row("1", "", "", solved).cells(every)
    sizes = {(row.d, row.p) for row in curves()}
    answers = ", ".join(folder.name for folder in language_models())
    number = sum(cell.runs for cell in usual)
    fixed = [
        (
            "1 learning regimes",
            drawn(usual),
            "two runs, not five; stars in their own cells",
            "1,176 means",
            "see below",
        ),
        ("2 parameter counts", f"{number:,} runs", "running best (published) and convex hull (caption)", "", ""),
        (
            "3 bos+sftm",
            "one model, d = 45, p = 2",
            "inner products (caption: cosines); two panels more",
            "table below",
            "",
        ),
        ("4 dot+sftm, lin+sftm", "two models", "one attention scale; colours of classes 1 to 4 put right", "below", ""),
        ("5 decreasing d", "three models", "dot+sftm (caption: dot); percent of each true count", "table below", ""),
        (
            "6, 7 language models",
            answers or "no answers ship",
            "other models than the published ones" if answers else "a line of text says how to get answers",
            "",
            "",
        ),
        ("8 step function", "a construction", "none", "nine boundaries", "equal to five digits"),
        (
            "9 output curves",
            f"{len(sizes)} of {len(SIZES) ** 2} sizes, one run each",
            "minus the best logit; the filler varies (caption: the counted token)",
            "",
            "",
        ),
        (
            "13 mixtures with `$`",
            "the model of Fig. 3",
            "tokens B to E; shares of `$` as lines",
            "16 of 16 monotone",
            "16 of 16",
        ),
        (
            "14 singular values",
            f"{len(spectra())} runs with p, d >= 32 and 99 %",
            "over the largest value, logarithmic",
            "427 runs",
            "table below",
        ),
    ]
    classified = {cell.cell.setting for cell in mechanisms(runs)}
    swept = [
        (
            row.figure,
            drawn(here),
            row.as_drawn(here, here[0].cell.setting in classified),
            row.says,
            row.ours(Tables(usual, here)),
        )
        for row in SWEEPS
        if (here := row.cells(every))
    ]
    return sorted([*fixed, *swept], key=lambda row: int(row[0].split()[0].strip(",")))


def spectra_rows() -> list[tuple[str, ...]]:
    """The drop of singular values at T for each model, published and ours."""
    reader = csv.DictReader(published("spectra").read_text("utf-8").splitlines())
    theirs = {row["model"]: row for row in reader if row["quantity"] == "drop_at_T"}
    rows: list[tuple[str, ...]] = []
    for model in (model for row in ROWS for model in row):
        ours = [run.sigma for run in spectra() if run.model == model]
        drops = [sigma[31] / sigma[32] for sigma in ours if len(sigma) > 32 and sigma[32] > 0]
        published_drops = [float(theirs[model][name]) for name in ("median", "least", "most")]
        our_drops = [median(drops), min(drops), max(drops)]
        spread = ["{:.2f} ({:.2f} to {:.2f})".format(*values) for values in (published_drops, our_drops)]
        rows.append((model, theirs[model]["curves_with_it"], spread[0], str(len(drops)), spread[1]))
    return rows
