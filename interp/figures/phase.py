"""Figures of a sweep: phase diagrams over (p, d), differences of two sweeps, accuracy against parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise, product
from math import inf, log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid
from counting_interp.interp.figures.mechanism_map import NUMBERS, letters, mechanism_map, number_map
from counting_interp.interp.figures.panels import MARK, NOT_TRAINED, ON_COLOURS, CellKey, runs_per_cell, value_panels
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
LEGEND: dict[str, dict[str, Any]] = {
    "a run reached 100 %": {"symbol": "star", "size": 9, **MARK},
    "a run reached 99 %": {"symbol": "circle", "size": 6, **MARK},
}


@dataclass(frozen=True)
class Statistic:
    """A quantity to draw of each cell: its value, colour scale, caption, and why a cell may lack it."""

    of: Callable[[CellStatistics], float | None]
    colour_title: str
    caption: str
    scale: dict[str, Any]
    missing: str = "not trained"


STATISTICS = {
    "mean": Statistic(
        lambda cell: cell.mean, "mean accuracy of {of} (%)", "Mean accuracy after the last epoch", style.ACCURACY
    ),
    "best": Statistic(
        lambda cell: cell.best, "best accuracy of {of} (%)", "Best accuracy of any run at any epoch", style.ACCURACY
    ),
    "std": Statistic(
        lambda cell: cell.std,
        "standard deviation of {of} (points)",
        "Standard deviation over runs of the accuracy after the last epoch",
        {"zmin": 0, "zmax": 40, "colorscale": style.SPREAD},
        "not trained, or one run only",
    ),
}


def phase_diagram(
    cells: Sequence[CellStatistics],
    setting: Setting,
    statistic: str,
    classified: Sequence[CellMechanisms] = (),
) -> Figure:
    """One of `STATISTICS` over (p, d), six panels. Cells with one run, and grids with holes, are drawn as tiles.

    On the mean of a complete grid, a star marks cells where some run reached 100 % at some epoch, and a dot those where
    one reached 99 %. Markers are in their own cells; in the published figure they are one cell to the right and one up.
    On tiles, the mechanism replaces the number where it is known.
    """
    chosen = STATISTICS[statistic]
    values = {_key(cell): value for cell in cells if (value := chosen.of(cell)) is not None}
    known = {model for model, _, _ in values}
    keys = [_key(cell) for cell in cells if cell.cell.model in known]  # no panels without a value
    every = len(known) * len({d for _, d, _ in keys}) * len({p for _, _, p in keys})
    holes, runs = len(values) < every, _runs(cells)
    alone = max(cell.runs for cell in cells) == 1
    tiles = style.whole_percent if holes or min(cell.runs for cell in cells) == 1 else None
    title = chosen.colour_title.format(of="one run a cell" if alone else runs.removesuffix(" per cell"))
    title = title.removeprefix("mean ") if alone else title
    named = _letters(classified, values) if tiles and statistic == "mean" else {}
    drawn = value_panels(values, setting["T"], chosen.scale, title, keys, tiles, letters=named)
    legend = _legend_of_letters({ink for _, ink in named.values()})
    marks, said = "", ["letters: mechanism, bold at 99 %"] if named else []
    if named:
        marks = " Letters: the mechanism of runs that count well enough to ask (R: RC, G: gated, M: mixed), bold where "
        marks += "the mean accuracy is 99 % or above; the other tiles show their accuracy."
    if statistic == "mean" and tiles is None:
        for (name, look), low, high in zip(LEGEND.items(), (PERFECT, SOLVED), (inf, PERFECT), strict=True):
            reached = [_key(cell) for cell in cells if low <= cell.best < high]
            drawn.mark(reached, look["symbol"], look["size"] - 2, name)
            legend |= {name: {"marker": look}} if reached else {}
        marks = " Star: some run reached 100 % at some epoch; dot: at least 99 %."
    if holes:
        legend[chosen.missing] = {"marker": {"symbol": "square", "size": 11, "color": NOT_TRAINED}}
    grey = f" Grey: {chosen.missing}." if holes else ""
    what = "Accuracy after the last epoch, one run a cell" if alone and statistic == "mean" else chosen.caption
    lines = "Bold, or a line between tiles: p = T and d = T." if tiles else "Lines: p = T and d = T."
    return Figure(
        drawn.finish(legend),
        name=f"phase_{statistic}_{setting.slug}",
        title=what,
        caption=f"{what}; {setting.label}; {runs}. {lines}{grey}{marks}",
        table=[_row(cell) for cell in cells],
        about="; ".join([setting.label, (f"{len(keys)} of {every} cells, " if holes else "") + runs, *said]),
    )


def difference_map(first: Sequence[CellStatistics], second: Sequence[CellStatistics], pair: Pair) -> Figure | None:
    """Mean accuracy of one sweep minus that of another, in cells where both have runs; None if they share no cell."""
    subtracted = {_key(cell): cell for cell in second}
    both = [(cell, subtracted[_key(cell)]) for cell in first if _key(cell) in subtracted]
    if not both:
        return None
    values = {_key(a): a.mean - b.mean for a, b in both}
    scale = {"zmin": -pair.range, "zmax": pair.range, "colorscale": style.DIFFERENCE}
    better, worse = BETTER[pair.name]
    runs = " minus ".join(_runs(cells) for cells in zip(*both, strict=True))
    counted = f"{len(both)} cells, {runs}"
    caption = (
        f"Mean accuracy, {pair.title}, in points; {pair.first.label}; {counted}. Purple: {better}; orange: {worse}. "
        "Bold: p = T and d = T. Grey: not trained in both."
    )
    table = [
        {"model": a.cell.model, "d": a.cell.d, "p": a.cell.p, "first": a.mean, "second": b.mean, "difference": value}
        for (a, b), value in zip(both, values.values(), strict=True)
    ]
    return Figure(
        value_panels(values, pair.first["T"], scale, "", tiles=_points, ends=(worse, better)).finish(),
        name=f"difference_{pair.name}_{pair.first.slug}",
        title=f"Accuracy, {pair.title}",
        caption=caption,
        table=table,
        about=f"{pair.first.label}; {counted}",
    )


BETTER = {  # what the highest and the lowest colour of a pair mean
    "learned_minus_random": ("learned better", "random better"),
    "one_minus_two_layers": ("one layer better", "two layers better"),
}


def _letters(classified: Sequence[CellMechanisms], values: Mapping[CellKey, float]) -> dict[CellKey, tuple[str, str]]:
    """The letters of each classified cell and their colour; bold where the value is 99 % or above."""
    shown = {}
    for cell in classified:
        key, word = _key(cell), letters(cell)
        if word and key in values:
            bold = f"<b>{word}</b>" if values[key] >= SOLVED else word
            shown[key] = (bold, style.MECHANISMS[cell.main].text)
    return shown


def _legend_of_letters(inks: Collection[str]) -> dict[str, dict[str, Any]]:
    """Legend entries for the letters in these colours."""
    return {
        name if name == look.letters else f"{look.letters}: {name}": {
            "marker": {"symbol": "square", "size": 9, "color": look.text},
            "meta": ON_COLOURS,
        }
        for name, look in style.MECHANISMS.items()
        if look.text in inks
    }


def _points(value: float) -> str:
    """A difference in whole points with its sign; zero has none."""
    return "0" if abs(value) < 0.5 else f"{value:+.0f}".replace("-", style.MINUS)


def _key(cell: CellStatistics | CellMechanisms) -> CellKey:
    return cell.cell.model, cell.cell.d, cell.cell.p


def _runs(cells: Sequence[CellStatistics]) -> str:
    return runs_per_cell(cell.runs for cell in cells)


def _row(cell: CellStatistics) -> dict[str, Any]:
    facts = {"model": cell.cell.model, "d": cell.cell.d, "p": cell.cell.p, "parameters": cell.parameters}
    numbers = {"runs": cell.runs, "mean": cell.mean, "std": cell.std, "best": cell.best, "solved": cell.solved}
    return facts | numbers


Lines = Mapping[str, Sequence[tuple[float, float]]]  # of each model, from left to right
OTHERS = tuple(colour for colour in style.QUALITATIVE if colour not in style.VARIANT_COLOURS.values())


def accuracy_by_parameters(runs: Sequence[RunRow], setting: Setting) -> Figure:
    """A point for each run; for each model its running best (solid, named) and its upper convex hull (dotted)."""
    models = {run.cell.model for run in runs}
    sides = [side for side in (True, False) if any(("sftm" in model) == side for model in models)]
    grid = Grid([len(sides)], [300], width=style.FULL_WIDTH if len(sides) == 2 else 460, gap=24, showlegend=False)
    points = {model: [(run.parameters, run.final) for run in runs if run.cell.model == model] for model in models}
    for side, panel in zip(sides, grid.panels, strict=True):
        looks = {model: look for model, look in _looks(models).items() if ("sftm" in model) == side}
        best, hulls = ({model: line(points[model]) for model in looks} for line in (running_best, upper_hull))
        for model, (name, colour, symbol) in looks.items():
            dots = {"color": colour, "size": 4, "opacity": 0.22, "symbol": symbol}
            hull = {"color": colour, "width": 1.2, "dash": "dot"}
            steps = {"color": colour, "width": 2.6, "shape": "hv"}
            for kind, values, look in (
                ("runs", points[model], {"mode": "markers", "marker": dots}),
                ("convex hull", hulls[model], {"mode": "lines", "line": hull}),
                ("running best", best[model], {"mode": "lines", "line": steps}),
            ):
                x, y = [size for size, _ in values], [accuracy for _, accuracy in values]
                hover = f"{model}, {kind}<br>%{{x:,}} parameters<br>%{{y:.2f}} %<extra></extra>"
                panel.add(go.Scatter(x=x, y=y, name=f"{name}, {kind}", hovertemplate=hover, **look))
        for model, (at, height, anchor) in label_positions(best, hulls).items():
            name, colour, _ = looks[model]
            where: dict[str, Any] = {"data": "xy", "xanchor": anchor, "xshift": 5 if anchor == "left" else -5}
            panel.note(f"<b>{name}</b>", at, height, font_color=colour, font_size=style.FONT_SIZE, **where)
        panel.title(f"<b>{'with' if side else 'without'} softmax</b>")
        ticks = [100, 300, 1000, 3000, 10_000, 30_000]
        panel.x("trained parameters", type="log", tickvals=ticks, ticktext=[f"{n:,}" for n in ticks])
        panel.y(range=[15, 105], showticklabels=panel is grid[0])
    grid[0].y("accuracy (%)")
    caption = (
        f"Accuracy after the last epoch of each of {len(runs):,} runs against its number of trained weights; "
        f"{setting.label}. Solid: the best run with at most that many weights, as in the published figure. "
        "Dotted: the upper convex hull on this axis."
    )
    table = [
        {"model": run.cell.model, "d": run.cell.d, "p": run.cell.p, "run": run.run}
        | {"parameters": run.parameters, "final": run.final}
        for run in runs
    ]
    return Figure(
        grid.figure,
        name=f"parameters_{setting.slug}",
        title="Accuracy against the number of parameters",
        caption=caption,
        table=table,
        about=f"{setting.label}; {len(runs):,} runs",
    )


def label_positions(best: Lines, hulls: Lines) -> dict[str, tuple[float, float, str]]:
    """Where the name of each rising line is farthest from the other lines and from the hulls.

    Returns:
        By model: log10 of x, y, and the end of the name that touches the line (`left` or `right`).
    """

    def reaches(model: str, level: float) -> float:
        return next((log10(x) for x, y in best[model] if y >= level), 9.0)

    def crosses(hull: Sequence[tuple[float, float]], level: float) -> float:
        for (x, low), (end, high) in pairwise(hull):
            if low <= level <= high and low < high:
                return log10(x) + (log10(end) - log10(x)) * (level - low) / (high - low)
        return 9.0

    positions = {}
    for model, line in best.items():
        options = [(0.0, line[-1][1], log10(line[-1][0]), "right")]
        for level, (side, anchor) in product(range(40, 96, 5), ((-1, "right"), (1, "left"))):
            x = reaches(model, level + 4 * side)  # beside the steps around this height
            gaps = [side * (reaches(other, level - 4 * side) - x) for other in best if other != model]
            rooms = [gap if gap > 0 else 0.5 if gap < -0.08 else 0.0 for gap in gaps]  # none where lines run together
            across = [side * (crosses(hull, level) - x) for hull in hulls.values()]
            rooms += [gap if gap > 0 else 0.5 for gap in across]
            options += [(min([0.5, *rooms]), level, x, anchor)] if x < 9 else []
        _, height, at, end = max(options)
        positions[model] = (at, height, end)
    return positions


def _looks(models: set[str]) -> dict[str, tuple[str, str, str]]:
    """Name, colour and symbol of each model. A mixing has the same ones with and without softmax; models beyond the
    paper's follow under their full names."""
    paper = {
        model: (model.split("+")[0], colour, style.VARIANT_SYMBOLS[model.split("+")[0]])
        for model, colour in style.VARIANT_COLOURS.items()
        if model in models
    }
    others = zip(sorted(models - set(paper)), cycle(OTHERS), strict=False)
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
    **{name: f"{words[0].lower()}{words[1:]}, over (p, d)" for name, (_, _, words) in NUMBERS.items()},
}


def map_figures(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Figure]:
    """The maps of each setting among the classified runs.

    Raises:
        ValueError: `only` names a map that does not exist.
    """
    _check(only, MAPS)
    for setting, cells in _classified(runs).items():
        for name in only or MAPS:
            drawing = mechanism_map(cells, setting) if name == "mechanism" else number_map(cells, setting, name)
            if drawing is not None:
                yield drawing


def _classified(runs: Sequence[RunRow]) -> dict[Setting, list[CellMechanisms]]:
    groups: dict[Setting, list[CellMechanisms]] = {}
    for cell in mechanisms(runs):
        groups.setdefault(cell.cell.setting, []).append(cell)
    return groups


def sweep_figures(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Figure]:
    """Every figure that the finished runs allow, for each setting (T, L, layers, embeddings, ...).

    Raises:
        ValueError: `only` names a figure that does not exist.
    """
    _check(only, FIGURES)
    wanted = only or tuple(FIGURES)
    settings = by_setting(by_cell(runs))
    classified = _classified(runs)
    for setting, cells in settings.items():
        for statistic in ("mean", "best", "std"):
            if statistic in wanted and (statistic != "std" or any(cell.std is not None for cell in cells)):
                yield phase_diagram(cells, setting, statistic, classified.get(setting, ()))
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
