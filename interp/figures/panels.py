"""The paper's arrangement: columns bos, dot, lin, the upper row with softmax; p on x and d on y, both logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log10, sqrt
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from interp.figures import style

ROWS = (("bos+sftm", "dot+sftm", "lin+sftm"), ("bos", "dot", "lin"))
TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NOT_TRAINED = "#DDDDDD"
Place = tuple[str, int, int]  # model, d, p


def panels(values: Mapping[Place, float], T: int, scale: Mapping[str, Any], colour_title: str) -> go.Figure:
    """Six heat maps of `values`; cells without one stay grey. Lines mark p = T and d = T."""
    d_values = sorted({d for _, d, _ in values})
    p_values = sorted({p for _, _, p in values})
    titles = [f"<b>{model}</b>" for row in ROWS for model in row]
    figure = make_subplots(2, 3, subplot_titles=titles, horizontal_spacing=0.03, vertical_spacing=0.1)
    for row, models in enumerate(ROWS, 1):
        for column, model in enumerate(models, 1):
            heat = go.Heatmap(
                x=edges(p_values),
                y=edges(d_values),
                z=[[values.get((model, d, p)) for p in p_values] for d in d_values],
                hovertemplate=f"{model}<br>%{{customdata}}<br>%{{z:.2f}}<extra></extra>",
                customdata=[[f"d = {d}, p = {p}" for p in p_values] for d in d_values],
                coloraxis="coloraxis",
            )
            figure.add_trace(heat, row, column)
            _lines_at(figure, T, p_values, d_values, row, column)
    style.apply(figure, style.FULL_WIDTH, 500, margin={"l": 55, "r": 10, "t": 30, "b": 45})
    colour_axis = {"colorscale": scale["colorscale"], "cmin": scale["zmin"], "cmax": scale["zmax"]}
    bar = {
        "title": {"text": colour_title, "side": "right", "font": {"size": style.FONT_SIZE}},
        "thickness": 14,
        "outlinewidth": 0,
        "x": 1.01,
    }
    figure.update_layout(coloraxis={**colour_axis, "colorbar": bar}, showlegend=False, plot_bgcolor=NOT_TRAINED)
    for axes, limits in ((figure.update_xaxes, edges(p_values)), (figure.update_yaxes, edges(d_values))):
        log_range = [log10(limits[0]), log10(limits[-1])]
        axes(type="log", range=log_range, tickvals=TICKS, ticktext=[str(tick) for tick in TICKS], showgrid=False)
        axes(showticklabels=False)
    figure.update_xaxes(row=2, title_text="p", showticklabels=True)
    figure.update_yaxes(col=1, title_text="d", showticklabels=True)
    return figure


def mark(figure: go.Figure, places: Sequence[Place], symbol: str, size: float, name: str) -> None:
    """Put a symbol into the middle of cells."""
    for row, models in enumerate(ROWS, 1):
        for column, model in enumerate(models, 1):
            here = [(d, p) for other, d, p in places if other == model]
            marker = {"symbol": symbol, "size": size, "color": "black", "line": {"width": 0}}
            x, y = [p for _, p in here], [d for d, _ in here]
            points = go.Scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip")
            figure.add_trace(points, row, column)


def edges(values: Sequence[int]) -> list[float]:
    """The borders of cells on a logarithmic axis: half-way between neighbours, and as far outside at the ends."""
    if len(values) == 1:
        return [values[0] / sqrt(2), values[0] * sqrt(2)]
    inner = [sqrt(a * b) for a, b in pairwise(values)]
    return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]


def _lines_at(
    figure: go.Figure, T: int, p_values: Sequence[int], d_values: Sequence[int], row: int, column: int
) -> None:
    """White with a dark rim, so that it shows on any colour."""
    x, y = edges(p_values), edges(d_values)
    for points in (([T, T], [y[0], y[-1]]), ([x[0], x[-1]], [T, T])):
        for colour, width in (("rgba(0,0,0,0.5)", 2.0), ("white", 1.0)):
            line = {"color": colour, "width": width}
            figure.add_trace(
                go.Scatter(x=points[0], y=points[1], mode="lines", line=line, hoverinfo="skip", name="T"), row, column
            )
