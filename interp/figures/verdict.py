"""The picture of the verdict: what each transplant does to the answer, and on the same axis the three shares.

A share is the part of the model's own change of the answer that a transplant delivers: a column as high as that change,
divided into RC, IC and gated, stands beside the curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from torch import Tensor

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid, Panel
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
CLOSE = 0.5  # counts: names at curves that end closer than this would cover each other
WORTH_A_WORD = 0.12  # a share below it has no room for its name in the column


@dataclass(frozen=True)
class Curve:
    """Mean change of the answer for each change of the count, and its 10th and 90th percentile over rows."""

    mean: list[float]
    low: list[float]
    high: list[float]


def verdict_figure(result: Transplants) -> Figure:
    """Left: change of the answer against the copies added or taken away. Right: the shares, on the same axis."""
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
    _column(right, result, max(curves["own"].mean))
    right.x(range=[-0.75, 1.9], showticklabels=False, ticks="", showgrid=False, showline=False)
    right.y(showticklabels=False, ticks="", showgrid=False, showline=False, range=[-limit - 0.75, limit + 0.75])
    grid.figure.update_layout(meta=None)  # one axis: the column stays beside its curves
    _badge(left, result.label)
    where = "" if len(result.blocks) == 1 else f" Block {_block(result) + 1} is drawn."
    says = f"{result.shares}." if result.label else f"No verdict: {result.reason}."
    caption = (
        "What copies are worth to a listener is added to the attention output at positions of t, and the answer moves."
        f" {says} A share is the part of the model's own change that a transplant delivers, in the direction where it "
        f"delivers less. Means over {len(result.tokens)} rows of tokens; bands: 10th to 90th percentile.{where}"
    )
    table = [
        {"kind": kind, "copies_added": step, "mean": curve.mean[i], "low": curve.low[i], "high": curve.high[i]}
        for kind, curve in curves.items()
        for i, step in enumerate(steps)
    ]
    return Figure(grid.figure, name="transplants", title="Who delivers the count?", caption=caption, table=table)


def changes(result: Transplants) -> tuple[list[int], dict[str, Curve]]:
    """By how much each transplant changes the answer, for every change of the count, in the block that decides."""
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
    """The mechanism whose colour a label has; `unsolved` where there is none."""
    if not label:
        return "unsolved"
    first = label.split(",")[0]
    return first if first in style.MECHANISMS else "mixed"


def _block(result: Transplants) -> int:
    """The index of the block that decides; where none does, the one that moves the answer most."""
    weights = result.weights if bool((result.weights > 0).any()) else result.moved
    return int(weights.argmax())


def _moved(result: Transplants) -> Tensor:
    """[kind, row, move]: answers minus those before."""
    answers = result.answers[_block(result)].double()
    return answers - answers[:1]


def _pairs(panel: Panel, result: Transplants, steps: Sequence[int]) -> None:
    """A faint line for each row and transplant, with its tokens and its shares on hover; a page loads it on a click."""
    moved, step = _moved(result), result.moves[:, 1] - result.moves[:, 0]
    traces = []
    for kind, mechanism in (("relation", "RC"), ("inventory", "IC")):
        lines = moved[KINDS.index(kind)]
        means = {change: lines[:, step == change].mean(1).tolist() for change in steps if change}
        for row, (tokens, shares) in enumerate(zip(result.tokens.tolist(), result.by_pair(), strict=True)):
            names = [f"{role} = {letter(token, result.T)}" for role, token in zip("tsq", tokens, strict=False)]
            known = {name: shares[name.lower()] for name in ("RC", "IC")}
            parts = [f"{name} {share:.2f}" for name, share in known.items() if share is not None]
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
                    f"{', '.join(parts)}<extra></extra>",
                )
            )
    panel.add(*traces)


def _curve(panel: Panel, kind: str, steps: Sequence[int], curve: Curve, aside: bool) -> None:
    """`aside`: the names at the ends of relation and inventory move apart."""
    hover = f"{kind}, %{{x:+d}} copies: answer %{{y:+.2f}}<extra></extra>"
    look: dict[str, Any] = {"x": list(steps), "y": curve.mean, "name": NAMES[kind], "hovertemplate": hover}
    look["legendrank"] = list(NAMES).index(kind)
    if kind == "own":  # broad and pale, so that a line on top of it shows
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


def _column(panel: Panel, result: Transplants, height: float) -> None:
    """The shares of the model's own rise, stacked; whiskers at the ends of RC and of RC + IC; a mark at one half."""
    shares = (result.shares.rc, result.shares.ic, result.shares.gated)
    if not result.label or any(share.value != share.value for share in shares):
        words = "<br>".join(wrap(f"no verdict: {result.reason}", 22))
        panel.add(go.Scatter(x=[None], y=[None], hoverinfo="skip", showlegend=False))  # without a trace, no axes
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
                opacity=1 if share.value >= 0 else 0.45,
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
    panel.note("▶", -0.46, height / 2, data="xy", xanchor="right", font_size=style.TINY)
    panel.note("½", -0.62, height / 2, data="xy", xanchor="right", font_size=style.TINY, xshift=-6)


def _word(panel: Panel, share: Estimate, height: float, colour: str) -> None:
    interval = f"<span style='font-size:{style.TINY}px'>{share.low:.2f} to {share.high:.2f}</span>"
    text = f"<b>{share.name}</b> {share.value:.2f}<br>{interval}"
    panel.note(text, 0.5, height, data="xy", xanchor="left", align="left", font_color=colour)


def _badge(panel: Panel, label: str) -> None:
    look = style.MECHANISMS[mechanism_of(label)]
    text = f"<b> {label or 'no verdict'} </b>"
    place: dict[str, Any] = {"xanchor": "left", "yanchor": "bottom", "yshift": 6, "borderpad": 3}
    panel.note(text, 0, 1, bgcolor=look.colour, font_color=look.on, font_size=15, **place)
