"""Phase diagrams of a sweep: mean, best and scatter of accuracy over (p, d), and differences between two sweeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.panels import NOT_TRAINED, legend_below, runs_per_cell, value_panels
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.statistics import SOLVED, CellStatistics, Pair

PERFECT = 100.0 - 1e-9
LEGEND = {
    "a run reached 100 %": {"marker": {"symbol": "star", "size": 9, "color": "black"}},
    "a run reached 99 %": {"marker": {"symbol": "circle", "size": 5, "color": "black"}},
}
GREY = {"marker": {"symbol": "square", "size": 11, "color": NOT_TRAINED}}


@dataclass(frozen=True)
class Statistic:
    """What is drawn of a cell, on what scale, how a caption says it, and which cells have none."""

    of: Callable[[CellStatistics], float | None]
    colour_title: str
    caption: str
    scale: dict[str, Any]
    missing: str = "not trained"


STATISTICS = {
    "mean": Statistic(
        lambda cell: cell.mean, "mean accuracy (%)", "Mean accuracy after the last epoch", style.ACCURACY
    ),
    "best": Statistic(
        lambda cell: cell.best, "best accuracy (%)", "Best accuracy of any run at any epoch", style.ACCURACY
    ),
    "std": Statistic(
        lambda cell: cell.std,
        "standard deviation (points)",
        "Standard deviation over runs of the accuracy after the last epoch",
        {"zmin": 0, "zmax": 40, "colorscale": style.SPREAD},
        "not trained, or one run only",
    ),
}


def phase_diagram(cells: Sequence[CellStatistics], setting: Setting, statistic: str) -> Drawing:
    """One of `STATISTICS` over (p, d), six panels. A star marks cells where some run counted all validation sequences
    rightly at some epoch, a dot those where one reached 99 %: in the very cell it belongs to, other than in the
    published figure, where markers sit one cell to the right and one up."""
    chosen = STATISTICS[statistic]
    values = {_place(cell): value for cell in cells if (value := chosen.of(cell)) is not None}
    known = {model for model, _, _ in values}
    there = [_place(cell) for cell in cells if cell.cell.model in known]  # no panel of which nothing is known
    drawn = value_panels(values, setting["T"], chosen.scale, chosen.colour_title, there)
    drawn.mark([_place(cell) for cell in cells if cell.best >= PERFECT], "star", 8, "100 %")
    drawn.mark([_place(cell) for cell in cells if SOLVED <= cell.best < PERFECT], "circle", 4, "99 %")
    figure = drawn.finish(below=30)
    legend_below(figure, {**LEGEND, chosen.missing: GREY})
    caption = f"{chosen.caption}; {setting.label}; {_runs(cells)}. Lines: p = T and d = T. Grey: {chosen.missing}."
    caption += " Star: some run reached 100 % at some epoch; dot: at least 99 %."
    table = [_row(cell) for cell in cells]
    return Drawing(figure, name=f"phase_{statistic}_{setting.slug}", caption=caption, table=table)


def difference_map(first: Sequence[CellStatistics], second: Sequence[CellStatistics], pair: Pair) -> Drawing | None:
    """Mean accuracy of one sweep minus that of another, where both have runs; None where they share no cell."""
    theirs = {_place(cell): cell for cell in second}
    both = [(cell, theirs[_place(cell)]) for cell in first if _place(cell) in theirs]
    if not both:
        return None
    values = {_place(a): a.mean - b.mean for a, b in both}
    figure = value_panels(values, pair.first["T"], style.signed(pair.range), f"{pair.title} (points)").finish()
    runs = " minus ".join(_runs(cells) for cells in zip(*both, strict=True))
    caption = (
        f"Mean accuracy, {pair.title}; {pair.first.label}; {runs}. Blue: the first is better. Lines: p = T and d = T."
    )
    table = [
        {"model": a.cell.model, "d": a.cell.d, "p": a.cell.p, "first": a.mean, "second": b.mean, "difference": value}
        for (a, b), value in zip(both, values.values(), strict=True)
    ]
    return Drawing(figure, name=f"difference_{pair.name}_{pair.first.slug}", caption=caption, table=table)


def _place(cell: CellStatistics) -> tuple[str, int, int]:
    return cell.cell.model, cell.cell.d, cell.cell.p


def _runs(cells: Sequence[CellStatistics]) -> str:
    return runs_per_cell(cell.runs for cell in cells)


def _row(cell: CellStatistics) -> dict[str, Any]:
    facts = {"model": cell.cell.model, "d": cell.cell.d, "p": cell.cell.p, "parameters": cell.parameters}
    numbers = {"runs": cell.runs, "mean": cell.mean, "std": cell.std, "best": cell.best, "solved": cell.solved}
    return facts | numbers
