"""Accuracy against the number of trained weights, with what a model of that size can reach."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.statistics import running_best, upper_hull
from counting_interp.interp.sweep.table import RunRow

OTHERS = tuple(colour for colour in style.QUALITATIVE if colour not in style.VARIANT_COLOURS.values())


def accuracy_by_parameters(runs: Sequence[RunRow], setting: Setting) -> Drawing:
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
    return Drawing(figure, name=f"parameters_{setting.slug}", caption=caption, table=table)


def _looks(runs: Sequence[RunRow]) -> dict[str, tuple[str, str]]:
    """The models that have runs, each with its name in the legend and its colour. With and without softmax, a mixing
    has the same ones; models beyond the paper's come after, under their full names."""
    there = {run.cell.model for run in runs}
    paper = {model: (model.split("+")[0], colour) for model, colour in style.VARIANT_COLOURS.items() if model in there}
    others = zip(sorted(there - set(paper)), cycle(OTHERS), strict=False)
    return paper | {model: (model, colour) for model, colour in others}
