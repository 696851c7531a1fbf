"""Figures of a sweep: phase diagrams over (p, d), differences of two sweeps, accuracy against parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid
from counting_interp.interp.figures.panels import MARK, NOT_TRAINED, legend_below, runs_per_cell, value_panels
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.statistics import (
    SOLVED,
    CellMechanisms,
    CellStatistics,
    Pair,
    by_cell,
    by_setting,
    mechanisms,
    pairs,
    running_best,
    upper_hull,
)
from counting_interp.interp.sweep.table import RunRow

PERFECT = 100.0 - 1e-9
LEGEND = {
    "a run reached 100 %": {"marker": {"symbol": "star", "size": 9, **MARK}},
    "a run reached 99 %": {"marker": {"symbol": "circle", "size": 6, **MARK}},
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
        lambda cell: cell.mean, "mean accuracy{of} (%)", "Mean accuracy after the last epoch", style.ACCURACY
    ),
    "best": Statistic(
        lambda cell: cell.best, "best accuracy{of} (%)", "Best accuracy of any run at any epoch", style.ACCURACY
    ),
    "std": Statistic(
        lambda cell: cell.std,
        "standard deviation{of} (points)",
        "Standard deviation over runs of the accuracy after the last epoch",
        {"zmin": 0, "zmax": 40, "colorscale": style.SPREAD},
        "not trained, or one run only",
    ),
}


def phase_diagram(cells: Sequence[CellStatistics], setting: Setting, statistic: str) -> Figure:
    """One of `STATISTICS` over (p, d), six panels. On the mean, a star marks cells where some run counted all
    validation sequences at some epoch, a dot those where one reached 99 %: in the very cell it belongs to, other than
    in the published figure, where markers sit one cell to the right and one up. Cells with one run, and grids with
    holes, are drawn as tiles."""
    chosen = STATISTICS[statistic]
    values = {_place(cell): value for cell in cells if (value := chosen.of(cell)) is not None}
    known = {model for model, _, _ in values}
    there = [_place(cell) for cell in cells if cell.cell.model in known]  # no panel of which nothing is known
    holes = _holes(there, values)
    alone = min(cell.runs for cell in cells) == 1
    runs = _runs(cells)
    title = chosen.colour_title.format(of="" if alone else f" of {_number_of_runs(cells)} runs")
    title = title.removeprefix("mean ") if alone else title
    tiles = _short if alone or holes else None
    drawn = value_panels(values, setting["T"], chosen.scale, title, there, tiles)
    entries: dict[str, Any] = {}
    marks = ""
    if statistic == "mean":
        perfect = [_place(cell) for cell in cells if cell.best >= PERFECT]
        near = [_place(cell) for cell in cells if SOLVED <= cell.best < PERFECT]
        if tiles is None:
            drawn.mark(perfect, "star", 7, "100 %")
            drawn.mark(near, "circle", 4, "99 %")
            entries |= {name: look for (name, look), some in zip(LEGEND.items(), (perfect, near), strict=True) if some}
            marks = " Star: some run reached 100 % at some epoch; dot: at least 99 %."
    if holes:
        entries[chosen.missing] = GREY
    figure = drawn.finish(below=30 if entries else 0)
    if entries:
        legend_below(figure, entries)
    grey = f" Grey: {chosen.missing}." if holes else ""
    what = chosen.caption if not alone or statistic != "mean" else "Accuracy after the last epoch, one run a cell"
    caption = f"{what}; {setting.label}; {runs}. Lines: p = T and d = T.{grey}{marks}"
    drawing = Figure(
        figure,
        name=f"phase_{statistic}_{setting.slug}",
        title=what if statistic == "mean" else chosen.caption,
        caption=caption,
        table=[_row(cell) for cell in cells],
    )
    drawing.about = f"{setting.label}; {_share_of_cells(there, cells)}{runs}"
    return drawing


def difference_map(first: Sequence[CellStatistics], second: Sequence[CellStatistics], pair: Pair) -> Figure | None:
    """Mean accuracy of one sweep minus that of another, where both have runs; None where they share no cell."""
    theirs = {_place(cell): cell for cell in second}
    both = [(cell, theirs[_place(cell)]) for cell in first if _place(cell) in theirs]
    if not both:
        return None
    values = {_place(a): a.mean - b.mean for a, b in both}
    scale = {"zmin": -pair.range, "zmax": pair.range, "colorscale": style.DIFFERENCE}
    better, worse = BETTER[pair.name]
    drawn = value_panels(
        values,
        pair.first["T"],
        scale,
        "difference (points)",
        tiles=_points,
        ends=(worse, better),
    )
    figure = drawn.finish()
    figure.update_layout(coloraxis_colorbar_title=None)
    runs = " minus ".join(_runs(cells) for cells in zip(*both, strict=True))
    caption = (
        f"Mean accuracy, {pair.title}, in points; {pair.first.label}; {runs}. Purple: {better}; orange: {worse}. "
        "Lines: p = T and d = T. Grey: not trained in both."
    )
    table = [
        {"model": a.cell.model, "d": a.cell.d, "p": a.cell.p, "first": a.mean, "second": b.mean, "difference": value}
        for (a, b), value in zip(both, values.values(), strict=True)
    ]
    name = f"difference_{pair.name}_{pair.first.slug}"
    drawing = Figure(figure, name=name, title=f"Accuracy, {pair.title}", caption=caption, table=table)
    drawing.about = f"{pair.first.label}; {runs}"
    return drawing


BETTER = {  # pair: what its highest colour means, and what its lowest
    "learned_minus_random": ("learned better", "random better"),
    "one_minus_two_layers": ("one better", "two better"),
}


def _short(value: float) -> str:
    """A percentage in two digits; only what is all right is 100."""
    return "100" if value >= PERFECT else str(min(99, round(value)))


def _points(value: float) -> str:
    """A difference in whole points; what rounds to zero has no sign."""
    return "0" if abs(value) < 0.5 else f"{value:+.0f}".replace("-", "\N{MINUS SIGN}")


def _holes(there: Sequence[tuple[str, int, int]], values: Mapping[tuple[str, int, int], float]) -> bool:
    """Whether a panel has a cell without a value."""
    models, d, p = ({place[i] for place in there} for i in range(3))
    return len(values) < len(models) * len(d) * len(p)


def _share_of_cells(there: Sequence[tuple[str, int, int]], cells: Sequence[CellStatistics]) -> str:
    models, d, p = ({place[i] for place in there} for i in range(3))
    every = len(models) * len(d) * len(p)
    return "" if len(there) == every else f"{len(there)} of {every} cells, "


def _number_of_runs(cells: Sequence[CellStatistics]) -> str:
    numbers = {cell.runs for cell in cells}
    return str(max(numbers)) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def _place(cell: CellStatistics) -> tuple[str, int, int]:
    return cell.cell.model, cell.cell.d, cell.cell.p


def _runs(cells: Sequence[CellStatistics]) -> str:
    return runs_per_cell(cell.runs for cell in cells)


def _row(cell: CellStatistics) -> dict[str, Any]:
    facts = {"model": cell.cell.model, "d": cell.cell.d, "p": cell.cell.p, "parameters": cell.parameters}
    numbers = {"runs": cell.runs, "mean": cell.mean, "std": cell.std, "best": cell.best, "solved": cell.solved}
    return facts | numbers


OTHERS = tuple(colour for colour in style.QUALITATIVE if colour not in style.VARIANT_COLOURS.values())


def accuracy_by_parameters(runs: Sequence[RunRow], setting: Setting) -> Figure:
    """Every run as a point; its model's running best as a solid line with its name, upper convex hull dotted."""
    there = {run.cell.model for run in runs}
    sides = [side for side in ("softmax", "none") if any(("sftm" in model) == (side == "softmax") for model in there)]
    grid = Grid([len(sides)], [300], width=style.FULL_WIDTH if len(sides) == 2 else 460, gap=24, showlegend=False)
    for (model, (name, colour, symbol)), level in zip(_looks(runs).items(), cycle((58, 46, 70)), strict=False):
        panel = grid[sides.index("softmax" if "sftm" in model else "none")]
        points = [(run.parameters, run.final) for run in runs if run.cell.model == model]
        best = running_best(points)
        dots = {"color": colour, "size": 4, "opacity": 0.22, "symbol": symbol}
        traces: list[tuple[Sequence[tuple[float, float]], str, dict[str, Any]]] = [
            (points, "runs", {"mode": "markers", "marker": dots}),
            (
                upper_hull(points),
                "convex hull",
                {"mode": "lines", "line": {"color": colour, "width": 1.2, "dash": "dot"}},
            ),
            (best, "running best", {"mode": "lines", "line": {"color": colour, "width": 2.6, "shape": "hv"}}),
        ]
        for values, kind, look in traces:
            x, y = [size for size, _ in values], [accuracy for _, accuracy in values]
            hover = f"{model}, {kind}<br>%{{x:,}} parameters<br>%{{y:.2f}} %<extra></extra>"
            panel.add(go.Scatter(x=x, y=y, name=f"{name}, {kind}", hovertemplate=hover, **look))
        at, height = next(((size, min(value, level)) for size, value in best if value >= level), best[-1])
        place: dict[str, Any] = {"data": "xy", "xanchor": "right", "xshift": -5, "font_size": style.FONT_SIZE}
        panel.note(f"<b>{name}</b>", log10(at), height, font_color=colour, bgcolor="rgba(255,255,255,0.75)", **place)
    ticks = [100, 300, 1000, 3000, 10_000, 30_000]
    for side, panel in zip(sides, grid.panels, strict=True):
        panel.title(f"<b>{'with' if side == 'softmax' else 'without'} softmax</b>")
        panel.x("trained parameters", type="log", tickvals=ticks, ticktext=[f"{n:,}" for n in ticks])
        panel.y(range=[15, 105], showticklabels=panel is grid[0])
    grid[0].y("accuracy (%)")
    caption = (
        f"Accuracy after the last epoch of each of {len(runs):,} runs against its number of trained weights; "
        f"{setting.label}. Solid: the best with at most so many weights, which the published figure draws. "
        "Dotted: the upper convex hull on this axis."
    )
    table = [
        {"model": run.cell.model, "d": run.cell.d, "p": run.cell.p, "run": run.run}
        | {"parameters": run.parameters, "final": run.final}
        for run in runs
    ]
    figure = Figure(
        grid.figure,
        name=f"parameters_{setting.slug}",
        title="Accuracy against the number of parameters",
        caption=caption,
        table=table,
    )
    figure.about = f"{setting.label}; {len(runs):,} runs"
    return figure


def _looks(runs: Sequence[RunRow]) -> dict[str, tuple[str, str, str]]:
    """The models that have runs, each with its name, colour and symbol. With and without softmax, a mixing has the same
    ones; models beyond the paper's come after, under their full names."""
    there = {run.cell.model for run in runs}
    paper = {
        model: (model.split("+")[0], colour, style.VARIANT_SYMBOLS[model.split("+")[0]])
        for model, colour in style.VARIANT_COLOURS.items()
        if model in there
    }
    others = zip(sorted(there - set(paper)), cycle(OTHERS), strict=False)
    return paper | {model: (model, colour, "diamond") for model, colour in others}


FIGURES = {
    "mean": "mean accuracy over (p, d), six panels, cells with a run at 99 or 100 % marked",
    "best": "best accuracy of any run and epoch over (p, d)",
    "std": "standard deviation over runs, over (p, d)",
    "parameters": "accuracy against the number of parameters, with running best and convex hull",
    "difference": "learned minus random embeddings, one minus two layers, where a table has both",
}


MAPS = {
    "mechanism": "the mechanism of each cell over (p, d), with lines of equal accuracy",
    "share-RC": "the share of the count that is relation-based, over (p, d)",
    "share-IC": "the share of the count that is inventory-based, over (p, d)",
    "share-gated": "the share of the count that is gated, over (p, d)",
    "proved": "the share of each model that is proved right on every sequence, over (p, d)",
}


def map_figures(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Figure]:
    """What classification found, for each setting among the runs that were classified."""
    from counting_interp.interp.figures.mechanism_map import mechanism_map, number_map

    _check(only, MAPS)
    groups: dict[Setting, list[CellMechanisms]] = {}
    for cell in mechanisms(runs):
        groups.setdefault(cell.cell.setting, []).append(cell)
    for setting, cells in groups.items():
        for name in only or MAPS:
            drawing = mechanism_map(cells, setting) if name == "mechanism" else number_map(cells, setting, name)
            if drawing is not None:
                yield drawing


def sweep_figures(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Figure]:
    """Every figure that finished runs allow, for each setting (T, L, layers, embeddings, ...) among them."""

    _check(only, FIGURES)
    wanted = only or tuple(FIGURES)
    settings = by_setting(by_cell(runs))
    for setting, cells in settings.items():
        for statistic in ("mean", "best", "std"):
            if statistic in wanted and (statistic != "std" or any(cell.std is not None for cell in cells)):
                yield phase_diagram(cells, setting, statistic)
        if "parameters" in wanted:
            yield accuracy_by_parameters([run for run in runs if run.cell.setting == setting], setting)
    if "difference" in wanted:
        for pair in pairs(list(settings)):
            drawing = difference_map(settings[pair.first], settings[pair.second], pair)
            if drawing is not None:
                yield drawing


def _check(only: Sequence[str], known: Mapping[str, str]) -> None:
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise ValueError(f"figures of a sweep are {', '.join(known)}; got {unknown[0]!r}")
