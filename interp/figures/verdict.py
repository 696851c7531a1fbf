"""Figures of the verdict: answers under transplants, and the plane of mechanisms.

A share is the part of the model's own change of the answer that a transplant delivers. Beside the curves, a column as
high as that change is divided into RC, IC and gated.

The plane has the share of RC on x and of IC on y. It shows a model, many models, or the path of a training run. Its
corners are RC, IC, gated (neither suffices alone) and "either suffices" (each suffices alone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from torch import Tensor

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel
from counting_interp.probes.designs import letter
from counting_interp.probes.shares import KINDS, Estimate
from counting_interp.probes.transplants import Transplants

NAMES = {
    "own": "own: copies of t, heard by t",
    "relation": "1  copies of s, heard by s (RC)",
    "inventory": "2  copies of t, heard by a bystander (IC)",
    "null": "neither: copies of s, heard by a bystander",
}
ENDS = {"relation": "1", "inventory": "2"}
CLOSE = 0.5  # counts: labels of curves that end closer than this would overlap
WORTH_A_WORD = 0.12  # a smaller share has no room for its name in the column


@dataclass(frozen=True)
class Curve:
    """The mean change of the answer by change of the count, with the 10th and 90th percentile over rows."""

    mean: list[float]
    low: list[float]
    high: list[float]


def verdict_figure(result: Transplants, unsolved: str = "") -> Figure:
    """Left: change of the answer against copies added or removed. Right: the shares, on the same axis.

    Args:
        unsolved: why there is no verdict on a model that counts too badly; its shares are drawn pale.
    """
    steps, curves = changes(result)
    grid = Grid(
        [2],
        [270],
        width=600,
        shares=[3.1, 1],
        gap=14,
        margin={"t": 44, "b": 104},
        legend={**style.BELOW, "xref": "container"},
        barmode="overlay",
    )
    left, right = grid.panels
    _pairs(left, result, steps)
    ends_meet = abs(curves["relation"].mean[-1] - curves["inventory"].mean[-1]) < CLOSE
    for kind in ("own", "null", "inventory", "relation"):
        _curve(left, kind, steps, curves[kind], aside=ends_meet)
    limit = max(abs(step) for step in steps)
    ends = {"range": [-limit - 0.45, limit + 0.45], "dtick": 1, "zeroline": False}
    left.x("copies added to the count", tickprefix="", **ends)
    left.y("change of the answer", **{**ends, "range": [-limit - 0.75, limit + 0.75]})
    _column(right, result, max(curves["own"].mean), 0.45 if unsolved else 1)
    right.x(range=[-0.95, 1.9], showticklabels=False, ticks="", showgrid=False, showline=False)
    right.y(showticklabels=False, ticks="", showgrid=False, showline=False, range=[-limit - 0.75, limit + 0.75])
    grid.figure.update_layout(meta=None)  # one axis: the column stays beside its curves
    _badge(left, result.label, bool(unsolved))
    where = "" if len(result.blocks) == 1 else f" Block {_block(result) + 1} is drawn."
    says = f"{result.shares}." if result.label else f"No verdict: {result.reason}."
    if unsolved:
        says = f"Unsolved: {unsolved}. It leans towards: {result.shares}."
    caption = (
        "Each transplant records how copies change the attention output at a listening position, and adds that change "
        f"at positions of t. {says} A share is the part of the model's own change of the answer that a transplant "
        f"delivers, in the direction (up or down) where it delivers less. Means over "
        f"{len(result.tokens)} rows of tokens; bands: 10th to 90th percentile.{where}"
    )
    table = [
        {"kind": kind, "copies_added": step, "mean": curve.mean[i], "low": curve.low[i], "high": curve.high[i]}
        for kind, curve in curves.items()
        for i, step in enumerate(steps)
    ]
    return Figure(grid.figure, name="transplants", title="Who delivers the count?", caption=caption, table=table)


def changes(result: Transplants) -> tuple[list[int], dict[str, Curve]]:
    """The changes of the count, and for each transplant the change of the answer, in the block that decides."""
    moved = _moved(result)
    step = result.moves[:, 1] - result.moves[:, 0]
    steps = sorted({0, *step.tolist()})
    curves = {}
    for kind in KINDS[1:]:
        of_rows = [moved[KINDS.index(kind)][:, step == change].mean(1) if change else None for change in steps]
        curves[kind] = Curve(
            [0.0 if rows is None else float(rows.mean()) for rows in of_rows],
            [0.0 if rows is None else float(rows.quantile(0.1)) for rows in of_rows],
            [0.0 if rows is None else float(rows.quantile(0.9)) for rows in of_rows],
        )
    return steps, curves


def mechanism_of(label: str) -> str:
    """The key of `style.MECHANISMS` for a label; `unsolved` if the label is empty."""
    if not label:
        return "unsolved"
    first = label.split(",")[0]
    return first if first in style.MECHANISMS else "mixed"


def _block(result: Transplants) -> int:
    """The index of the block that decides; if none does, of the one that moves the answer most."""
    weights = result.weights if bool((result.weights > 0).any()) else result.moved
    return int(weights.argmax())


def _moved(result: Transplants) -> Tensor:
    """[kind, row, move]: answers minus answers before the transplant."""
    answers = result.answers[_block(result)].double()
    return answers - answers[:1]


def _pairs(panel: Panel, result: Transplants, steps: Sequence[int]) -> None:
    """A faint line for each row and transplant; tokens and shares on hover. On a page, a click loads the tokens."""
    moved, step = _moved(result), result.moves[:, 1] - result.moves[:, 0]
    traces = []
    for kind, mechanism in (("relation", "RC"), ("inventory", "IC")):
        lines = moved[KINDS.index(kind)]
        means = {change: lines[:, step == change].mean(1).tolist() for change in steps if change}
        for row, (tokens, shares) in enumerate(zip(result.tokens.tolist(), result.by_pair(), strict=True)):
            names = [f"{role} = {letter(token, result.T)}" for role, token in zip("tsq", tokens, strict=False)]
            by_name = {name: shares[name.lower()] for name in ("RC", "IC")}
            share_texts = [f"{name} {share:.2f}" for name, share in by_name.items() if share is not None]
            traces.append(
                go.Scatter(
                    x=list(steps),
                    y=[means[change][row] if change else 0.0 for change in steps],
                    mode="lines",
                    line={"color": style.MECHANISMS[mechanism].colour, "width": 1},
                    opacity=0.06,
                    showlegend=False,
                    customdata=[tokens] * len(steps),
                    meta="pair",
                    hovertemplate=f"{kind}: {', '.join(names)}<br>%{{x:+d}} copies: answer %{{y:+.2f}}<br>"
                    f"{', '.join(share_texts)}<extra></extra>",
                )
            )
    panel.add(*traces)


def _curve(panel: Panel, kind: str, steps: Sequence[int], curve: Curve, aside: bool) -> None:
    """Draws one kind of transplant. With `aside`, the labels at the ends of relation and inventory move apart."""
    hover = f"{kind}, %{{x:+d}} copies: answer %{{y:+.2f}}<extra></extra>"
    look: dict[str, Any] = {"x": list(steps), "y": curve.mean, "name": NAMES[kind], "hovertemplate": hover}
    look["legendrank"] = list(NAMES).index(kind)
    if kind == "own":  # broad and pale, so that a line on top of it is visible
        panel.add(go.Scatter(mode="lines", line={"color": style.OWN, "width": 10}, opacity=0.28, **look))
        return
    if kind == "null":
        panel.add(go.Scatter(mode="lines", line={"color": style.GREY, "width": 1.3, "dash": "dot"}, **look))
        return
    colour = style.MECHANISMS["RC" if kind == "relation" else "IC"].colour
    band = {"fill": "toself", "fillcolor": colour, "opacity": 0.2, "line": {"width": 0}, "hoverinfo": "skip"}
    around = [*steps, *reversed(steps)]
    panel.add(go.Scatter(x=around, y=[*curve.high, *reversed(curve.low)], mode="lines", showlegend=False, **band))
    marker = {"size": 7, "line": {"color": "white", "width": 1}}
    panel.add(go.Scatter(mode="lines+markers", line={"color": colour, "width": 3}, marker=marker, **look))
    on = {"font_color": style.MECHANISMS["RC" if kind == "relation" else "IC"].on, "bgcolor": colour, "borderpad": 2}
    higher = 9 if kind == "inventory" else -9
    shift = {"xanchor": "left", "xshift": 8, "yshift": higher if aside else 0}
    panel.note(f"<b>{ENDS[kind]}</b>", steps[-1], curve.mean[-1], data="xy", **shift, **on)


def _column(panel: Panel, result: Transplants, height: float, opacity: float) -> None:
    """The shares, stacked to the height of the model's own change. Whiskers: intervals of RC and IC. Mark: one half."""
    shares = (result.shares.rc, result.shares.ic, result.shares.gated)
    if not result.label or any(share.value != share.value for share in shares):
        words = "<br>".join(wrap(f"no verdict: {result.reason}", 22))
        panel.add(go.Scatter(x=[None], y=[None], hoverinfo="skip", showlegend=False))  # else there are no axes
        panel.note(words, 0, 0.5, xanchor="left", font_color=style.OWN)
        return
    panel.note("shares", 0, 0, data="xy", yanchor="top", yshift=-4, font_color=style.OWN)
    bottom = 0.0
    for share in shares:
        look = style.MECHANISMS[share.name]
        top = bottom + share.value
        panel.add(
            go.Bar(
                x=[0],
                y=[share.value * height],
                base=[bottom * height],
                width=0.8,
                marker={"color": look.colour, "line": {"color": "white", "width": 1}},
                opacity=opacity if share.value >= 0 else 0.45,
                showlegend=False,
                hovertemplate=f"{share}: {share.meaning}<extra></extra>",
            )
        )
        if abs(share.value) >= WORTH_A_WORD:
            _word(panel, share, (bottom + top) / 2 * height, look.text)
        bottom = top
    for edge, share in ((shares[0].value, shares[0]), (shares[0].value + shares[1].value, shares[1])):
        if share.high - share.low > 0.01:
            below, above = (edge + (end - share.value) for end in (share.low, share.high))
            panel.shapes(
                {"type": "line", "x0": 0, "x1": 0, "y0": below * height, "y1": above * height, "line": {"width": 1.5}}
            )
    panel.note("½▸", -0.42, height / 2, data="xy", xanchor="right", font_size=style.FONT_SIZE)


def _word(panel: Panel, share: Estimate, height: float, colour: str) -> None:
    interval = f"<span style='font-size:{style.TINY}px'>{share.low:.2f} to {share.high:.2f}</span>"
    text = f"<b>{share.name}</b> {share.value:.2f}<br>{interval}"
    panel.note(text, 0.5, height, data="xy", xanchor="left", align="left", font_color=colour)


def _badge(panel: Panel, label: str, unsolved: bool) -> None:
    look = style.MECHANISMS["unsolved" if unsolved else mechanism_of(label)]
    leans = f", leans {label}" if label else ""
    text = f"<b> {f'unsolved{leans}' if unsolved else label or 'no verdict'} </b>"
    anchors: dict[str, Any] = {"xanchor": "left", "yanchor": "bottom", "yshift": 6, "borderpad": 3}
    panel.note(text, 0, 1, bgcolor=look.colour, font_color=look.on, font_size=15, **anchors)


LOW, HIGH = -0.14, 1.14
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
        name: shown on hover.
        rc, ic: its shares.
        group: its legend entry. Each variant of the paper has a symbol, which is filled with softmax.
    """

    name: str
    rc: float
    ic: float
    group: str = ""


def plane_figure(points: Sequence[PlanePoint], *, title: str, about: str, path: bool = False) -> Figure:
    """Many models or, with `path`, one model at several times, in order."""
    grid = _frame(margin={"b": 92})
    panel = grid[0]
    if path and len(points) > 1:
        line = {"color": style.OWN, "width": 1.5}
        x, y = [point.rc for point in points], [point.ic for point in points]
        panel.add(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
        panel.note("start", points[0].rc, points[0].ic, data="xy", yanchor="bottom", yshift=6)
        panel.note("end", points[-1].rc, points[-1].ic, data="xy", yanchor="bottom", yshift=6)
    for group in dict.fromkeys(point.group for point in points):
        members = [point for point in points if point.group == group]
        panel.add(
            go.Scatter(
                x=[min(HIGH, max(LOW, point.rc)) for point in members],
                y=[min(HIGH, max(LOW, point.ic)) for point in members],
                mode="markers",
                marker=_marker(group),
                name=group or "models",
                showlegend=bool(group),
                customdata=[[point.name, point.rc, point.ic, 1 - point.rc - point.ic] for point in members],
                hovertemplate="%{customdata[0]}<br>RC %{customdata[1]:.2f}, IC %{customdata[2]:.2f}, "
                "gated %{customdata[3]:.2f}<extra></extra>",
            )
        )
    in_region = dict.fromkeys(REGIONS, 0)
    for point in points:
        in_region[region(point.rc, point.ic)] += 1
    counted = ", ".join(f"{number} {name}" for name, number in in_region.items() if number)
    caption = f"Shares of RC and IC of {len(points)} models; on the dashed line nothing is gated. Regions: {counted}."
    table = [{"name": p.name, "group": p.group, "rc": p.rc, "ic": p.ic, "gated": 1 - p.rc - p.ic} for p in points]
    return Figure(grid.figure, name="plane", title=title, caption=caption, table=table, about=about)


def model_plane(result: Transplants) -> Figure:
    """One model: a dot for each row of tokens, a cross with intervals for its shares."""
    grid = _frame()
    panel = grid[0]
    table = [{"row": _row_name(row, result.T), "rc": row["rc"], "ic": row["ic"]} for row in result.by_pair()]
    rows = [row for row in table if row["rc"] is not None]
    jitter = [0.025 * ((i * 0.618034) % 1 - 0.5) for i in range(len(rows))]  # else rows that agree would overlap
    panel.add(
        go.Scatter(
            x=[float(row["rc"] or 0) + by for row, by in zip(rows, jitter, strict=True)],
            y=[float(row["ic"] or 0) + by for row, by in zip(rows, reversed(jitter), strict=True)],
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
    return Figure(grid.figure, name="plane", title="The model in the plane of mechanisms", caption=caption, table=table)


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
    ink = style.MECHANISMS["mixed"].text
    panel.note("mixed", 0.49, 0.49, data="xy", xanchor="right", yanchor="top", font_color=ink)
    panel.note("nothing gated", 0.62, 0.42, data="xy", textangle=45, font_color=style.OWN)
    axis = {"range": [LOW, HIGH], "tickvals": [0, 0.25, 0.5, 0.75, 1], "constrain": "domain"}
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
