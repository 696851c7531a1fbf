"""Figures of a sweep: phase diagrams over (p, d), differences of two sweeps, accuracy against parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.panels import NOT_TRAINED, legend_below, runs_per_cell, value_panels
from counting_interp.interp.sweep.frontier import running_best, upper_hull
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.mechanisms import CellMechanisms, mechanisms
from counting_interp.interp.sweep.settings import Pair, by_setting, pairs
from counting_interp.interp.sweep.table import SOLVED, CellStatistics, RunRow, by_cell

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


def phase_diagram(cells: Sequence[CellStatistics], setting: Setting, statistic: str) -> Figure:
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
    return Figure(figure, name=f"phase_{statistic}_{setting.slug}", caption=caption, table=table)


def difference_map(first: Sequence[CellStatistics], second: Sequence[CellStatistics], pair: Pair) -> Figure | None:
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
    return Figure(figure, name=f"difference_{pair.name}_{pair.first.slug}", caption=caption, table=table)


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
    """Every run as a point; its model's running best as a solid line and upper convex hull as a dashed one."""
    figure = make_subplots(
        1,
        2,
        subplot_titles=("<b>with softmax</b>", "<b>without softmax</b>"),
        shared_yaxes=True,
        horizontal_spacing=0.04,
    )
    told: set[str] = set()
    for model, (name, colour) in _looks(runs).items():
        points = [(run.parameters, run.final) for run in runs if run.cell.model == model]
        dots = {"color": colour, "size": 4, "opacity": 0.25}
        traces: list[tuple[Sequence[tuple[float, float]], dict[str, Any]]] = [
            (points, {"mode": "markers", "marker": dots, "showlegend": False}),
            (upper_hull(points), {"mode": "lines", "line": {"color": colour, "width": 1.3, "dash": "dot"}}),
            (running_best(points), {"mode": "lines", "line": {"color": colour, "width": 2.4, "shape": "hv"}}),
        ]
        for (values, look), kind in zip(traces, ("runs", "convex hull", "running best"), strict=True):
            x, y = [size for size, _ in values], [accuracy for _, accuracy in values]
            shown = {"showlegend": name not in told, "name": f"{name}, {kind}", **look}
            hover = f"{model}, {kind}<br>%{{x}} parameters<br>%{{y:.2f}} %<extra></extra>"
            figure.add_trace(go.Scatter(x=x, y=y, hovertemplate=hover, **shown), 1, 1 if "sftm" in model else 2)
        told.add(name)
    style.apply(figure, style.FULL_WIDTH, 380, margin={"l": 60, "r": 10, "t": 30, "b": 100})
    figure.update_layout(legend={"orientation": "h", "y": -0.22, "x": 0.5, "xanchor": "center", "entrywidth": 150})
    ticks = [100, 300, 1000, 3000, 10_000, 30_000]
    figure.update_xaxes(type="log", title_text="trained parameters", tickvals=ticks, ticktext=[f"{n:,}" for n in ticks])
    figure.update_yaxes(range=[0, 105])
    figure.update_yaxes(title_text="accuracy (%)", col=1)
    caption = (
        f"Accuracy after the last epoch of every run against its number of trained weights; {setting.label}. "
        "Solid: the best with at most so many weights, which the published figure draws. "
        "Dotted: the upper convex hull on this axis."
    )
    table = [
        {"model": run.cell.model, "d": run.cell.d, "p": run.cell.p, "run": run.run}
        | {"parameters": run.parameters, "final": run.final}
        for run in runs
    ]
    return Figure(figure, name=f"parameters_{setting.slug}", caption=caption, table=table)


def _looks(runs: Sequence[RunRow]) -> dict[str, tuple[str, str]]:
    """The models that have runs, each with its name in the legend and its colour. With and without softmax, a mixing
    has the same ones; models beyond the paper's come after, under their full names."""
    there = {run.cell.model for run in runs}
    paper = {model: (model.split("+")[0], colour) for model, colour in style.VARIANT_COLOURS.items() if model in there}
    others = zip(sorted(there - set(paper)), cycle(OTHERS), strict=False)
    return paper | {model: (model, colour) for model, colour in others}


FIGURES = {
    "mean": "mean accuracy over (p, d), six panels, cells with a run at 99 or 100 % marked",
    "best": "best accuracy of any run and epoch over (p, d)",
    "std": "standard deviation over runs, over (p, d)",
    "parameters": "accuracy against the number of parameters, with running best and convex hull",
    "difference": "learned minus random embeddings, one minus two layers, where a table has both",
}


MAPS = {
    "mechanism": "the mechanism of each cell over (p, d), with lines of equal accuracy",
    "kept": "what is left of the count when attention cannot compare, over (p, d)",
    "follows": "whom the prediction follows when the two cues disagree, over (p, d)",
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
