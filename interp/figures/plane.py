"""The plane of mechanisms: the share of RC on x, of IC on y.

One frame for a model, a map, a ladder and a path of training.

Corners: RC, IC, gated (neither alone), and "either suffices" (both alone): a triangle would have no place for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid, Panel
from counting_interp.probes.designs import letter
from counting_interp.probes.transplants import Transplants

LOW, HIGH = -0.08, 1.08
REGIONS = {
    "RC": ((0.5, LOW), (HIGH, LOW), (HIGH, 0.5), (0.5, 0.5)),
    "IC": ((LOW, 0.5), (0.5, 0.5), (0.5, HIGH), (LOW, HIGH)),
    "gated": ((LOW, LOW), (0.5, LOW), (0.5, 0), (0, 0.5), (LOW, 0.5)),
    "mixed": ((0.5, 0.5), (HIGH, 0.5), (HIGH, HIGH), (0.5, HIGH)),
}
CORNERS = {"RC": (0.98, 0.02, "RC"), "IC": (0.02, 0.98, "IC"), "gated": (0.02, 0.02, "gated")}


@dataclass(frozen=True)
class PlanePoint:
    """A model in the plane.

    Attributes:
        name: on hover.
        rc, ic: its shares.
        group: the entry of the legend it belongs to; a paper's variant has its own symbol, filled with softmax.
    """

    name: str
    rc: float
    ic: float
    group: str = ""


def plane_figure(points: Sequence[PlanePoint], *, title: str, about: str, path: bool = False) -> Figure:
    """Many models, or with `path` one model at several times, in their order."""
    grid = _frame(margin={"b": 92})
    panel = grid[0]
    if path and len(points) > 1:
        line = {"color": style.OWN, "width": 1.5}
        x, y = [point.rc for point in points], [point.ic for point in points]
        panel.add(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
        panel.note("start", points[0].rc, points[0].ic, data="xy", yanchor="bottom", yshift=6)
        panel.note("end", points[-1].rc, points[-1].ic, data="xy", yanchor="bottom", yshift=6)
    for group in dict.fromkeys(point.group for point in points):
        here = [point for point in points if point.group == group]
        panel.add(
            go.Scatter(
                x=[min(HIGH, max(LOW, point.rc)) for point in here],
                y=[min(HIGH, max(LOW, point.ic)) for point in here],
                mode="markers",
                marker=_marker(group),
                name=group or "models",
                showlegend=bool(group),
                customdata=[[point.name, point.rc, point.ic, 1 - point.rc - point.ic] for point in here],
                hovertemplate="%{customdata[0]}<br>RC %{customdata[1]:.2f}, IC %{customdata[2]:.2f}, "
                "gated %{customdata[3]:.2f}<extra></extra>",
            )
        )
    inside = dict.fromkeys(REGIONS, 0)
    for point in points:
        inside[region(point.rc, point.ic)] += 1
    counted = ", ".join(f"{number} {name}" for name, number in inside.items() if number)
    caption = f"Shares of RC and IC of {len(points)} models; on the dashed line nothing is gated. Regions: {counted}."
    table = [{"name": p.name, "group": p.group, "rc": p.rc, "ic": p.ic, "gated": 1 - p.rc - p.ic} for p in points]
    return Figure(grid.figure, name="plane", title=title, caption=caption, table=table, about=about)


def model_plane(result: Transplants) -> Figure:
    """One model: its rows as small dots, its shares as a cross with intervals."""
    grid = _frame()
    panel = grid[0]
    every = [{"row": _row_name(row, result.T), "rc": row["rc"], "ic": row["ic"]} for row in result.by_pair()]
    rows = [row for row in every if row["rc"] is not None]  # those of which something can be said
    spread = [0.025 * ((i * 0.618034) % 1 - 0.5) for i in range(len(rows))]  # rows that agree would hide each other
    panel.add(
        go.Scatter(
            x=[float(row["rc"] or 0) + by for row, by in zip(rows, spread, strict=True)],
            y=[float(row["ic"] or 0) + by for row, by in zip(rows, reversed(spread), strict=True)],
            mode="markers",
            marker={"size": 5, "color": style.OWN, "opacity": 0.45},
            customdata=[[row["row"], row["rc"], row["ic"]] for row in rows],
            hovertemplate="%{customdata[0]}<br>RC %{customdata[1]:.2f}, IC %{customdata[2]:.2f}<extra></extra>",
            showlegend=False,
        )
    )
    rc, ic = result.shares.rc, result.shares.ic
    if rc.value == rc.value:
        bars = {"color": "#222222", "thickness": 2, "width": 5, "symmetric": False}
        panel.add(
            go.Scatter(
                x=[rc.value],
                y=[ic.value],
                mode="markers",
                marker={"symbol": "cross", "size": 11, "color": "#222222"},
                error_x={**bars, "array": [rc.high - rc.value], "arrayminus": [rc.value - rc.low]},
                error_y={**bars, "array": [ic.high - ic.value], "arrayminus": [ic.value - ic.low]},
                hovertemplate=f"{result.shares}<extra></extra>",
                showlegend=False,
            )
        )
    says = f"{result.shares}." if result.label else f"No verdict: {result.reason}."
    caption = f"Each dot is a row of tokens, the cross the model with 95 % intervals. {says}"
    return Figure(grid.figure, name="plane", title="The model in the plane of mechanisms", caption=caption, table=every)


def _row_name(row: Mapping[str, Any], T: int) -> str:
    """`t = B s = C q = D`."""
    return " ".join(f"{role} = {letter(int(row[role]), T)}" for role in "tsq")


def region(rc: float, ic: float) -> str:
    """The coloured region of the plane: RC, IC, gated, or mixed."""
    if rc >= 0.5 or ic >= 0.5:
        return "mixed" if rc >= 0.5 and ic >= 0.5 else "RC" if rc >= 0.5 else "IC"
    return "gated" if rc + ic < 0.5 else "mixed"


def _frame(margin: dict[str, int] | None = None) -> Grid:
    grid = Grid([1], [400], width=490, margin={"t": 20, **(margin or {})}, legend=style.BELOW)
    panel = grid[0]
    shapes: list[dict[str, Any]] = []
    for name, corners in REGIONS.items():
        outline = "M" + "L".join(f"{x},{y}" for x, y in corners) + "Z"
        fill = {"fillcolor": style.MECHANISMS[name].colour, "opacity": 0.1, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "path", "path": outline, **fill})
    dashed = {"color": style.OWN, "width": 1, "dash": "dash"}
    panel.shapes(*shapes, {"type": "line", "x0": 0, "y0": 1, "x1": 1, "y1": 0, "line": dashed, "layer": "below"})
    for name, (x, y, words) in CORNERS.items():
        _corner(panel, words, x, y, name)
    _corner(panel, "either suffices", 0.98, 0.98, "mixed")
    panel.note("nothing gated", 0.62, 0.42, data="xy", textangle=45, font_color=style.OWN)
    axis = {"range": [LOW, HIGH], "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    panel.x("share of RC: the match alone is enough", **axis)
    panel.y("share of IC: no match is needed", scaleanchor=panel.references[0], **axis)
    return grid


def _corner(panel: Panel, words: str, x: float, y: float, mechanism: str) -> None:
    anchors = {"xanchor": "left" if x < 0.5 else "right", "yanchor": "bottom" if y < 0.5 else "top"}
    panel.note(f"<b>{words}</b>", x, y, font_size=15, font_color=style.MECHANISMS[mechanism].text, **anchors)


def _marker(group: str) -> dict[str, Any]:
    symbol = style.VARIANT_SYMBOLS.get(group.split("+")[0], "diamond")
    filled = "sftm" in group
    return {
        "symbol": symbol if filled else f"{symbol}-open",
        "size": 8,
        "color": "#222222",
        "opacity": 0.75,
        "line": {"color": "#222222", "width": 1.4},
    }
