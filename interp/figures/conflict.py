"""Interventions as pictures: whose count comes out, what is left without comparison, and how a mechanism forms."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid, Panel
from counting_interp.interp.verdict.files import Formation
from counting_interp.interp.verdict.verdict import Mechanism
from counting_interp.probes.cue_conflict import CueConflict


def cue_conflict_figure(result: CueConflict) -> Figure:
    """The count of t on x, of s on y: vertical stripes follow attention (RC), horizontal ones the swap (IC)."""
    counts = list(range(1, result.L))
    answers = [[None if value != value else value for value in row] for row in result.map.T.tolist()]
    grid = Grid([1], [330], width=460, margin={"r": 76, "t": 16})
    panel = grid[0]
    scale = grid.scale(1, {"zmin": 1, "zmax": result.L, "colorscale": style.SEQUENTIAL}, panel, title="answer")
    panel.add(
        go.Heatmap(
            z=answers,
            x=counts,
            y=counts,
            xgap=1,
            ygap=1,
            coloraxis=scale,
            text=[["" if value is None else f"{value:.1f}".removesuffix(".0") for value in row] for row in answers],
            texttemplate="%{text}" if result.L <= 16 else None,
            textfont_size=style.SMALL - 1,
            hovertemplate="%{x} of t, %{y} of s: answer %{z:.2f}<extra></extra>",
            hoverongaps=False,
        )
    )
    look = {"showgrid": False, "constrain": "domain", **({"dtick": 1} if result.L <= 16 else {})}
    panel.x("number of t (for which attention compared)", **look)
    panel.y("number of s (patched into the MLP's input)", scaleanchor=panel.references[0], **look)
    with_t, with_s = result.follows
    caption = (
        f"Mean answer after the self path was swapped from t to s, over {len(result.pairs)} pairs. It changes by "
        f"{with_t:.2f} per occurrence of t and by {with_s:.2f} per occurrence of s: relation-based counting gives 1 "
        "and 0 (vertical stripes, the number of t), inventory-based counting 0 and 1 (horizontal stripes, one more "
        "than the number of s, since the swapped position is an s too)."
    )
    return Figure(
        grid.figure,
        name=f"cue-conflict-{result.layer + 1}",
        title="Whose count comes out?",
        caption=caption,
        table=result.rows(),
    )


SERIES = (  # column, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("rc", "share of RC", style.MECHANISMS["RC"].colour, "solid"),
    ("ic", "share of IC", style.MECHANISMS["IC"].colour, "solid"),
    ("gated", "share gated", style.MECHANISMS["gated"].colour, "solid"),
)


def formation_figure(formation: Formation) -> Figure:
    """The training step on an axis that is logarithmic and has a position for 0; one means all of the count. Below, the
    verdict on each snapshot, small while it is only what an unsolved model leans to."""
    table = [{"step": one.step, **one.verdict.to_row()} for one in formation.snapshots]
    steps = [place(int(row["step"] or 0)) for row in table]
    text = [f"{row['mechanism']} at step {row['step']:,}" for row in table]
    grid = Grid([1, 1], [270, 34], width=640, below=8, margin={"b": 104}, legend=style.BELOW)
    curves, strip = grid.panels
    for key, name, colour, dash in SERIES:
        curves.add(
            go.Scatter(
                x=steps,
                y=[row[key] for row in table],
                mode="lines+markers",
                line={"color": colour, "dash": dash},
                name=name,
                text=text,
                marker_size=5,
                hovertemplate=f"%{{text}}<br>{name}: %{{y:.2f}}<extra></extra>",
            )
        )
    _verdicts(strip, formation, steps)
    ticks = [0, *(10**i for i in range(int(steps[-1]) + 1))]
    axis: dict[str, Any] = {"tickvals": [place(tick) for tick in ticks], "range": [-0.1, steps[-1] + 0.1]}
    curves.x(showticklabels=False, **axis)
    strip.x("training step", ticktext=[f"{tick:,}" for tick in ticks], **axis)
    values = [value for key, *_ in SERIES for row in table if isinstance(value := row[key], (int, float))]
    curves.y("share of the count", range=[min(-0.1, *values) - 0.05, max(1.1, *values) + 0.05])
    strip.y(range=[-1, 1], tickvals=[0], ticktext=["verdict"], showgrid=False)
    if formation.forms_at is not None:
        for panel in grid.panels:
            panel.upright(place(formation.forms_at), color="#222222", dash="dot")
        words = f"{formation.labels[-1]} settled at step {formation.forms_at:,}"
        curves.note(words, place(formation.forms_at), 1, data="x", xanchor="right", yanchor="bottom")
    grid.figure.update_layout(meta=None)  # one time axis: the strip stays below its curves
    caption = f"Formation of the mechanism over {len(table)} snapshots of one run. {formation}"
    return Figure(grid.figure, name="formation", title="How the mechanism forms", caption=caption, table=table)


def place(step: int) -> float:
    """On the axis: logarithmic, with step 0 at its left end."""
    return log10(1 + step)


def _verdicts(panel: Panel, formation: Formation, steps: Sequence[float]) -> None:
    """One square for each snapshot, and for each verdict that occurs one entry of the legend."""
    squares: dict[str, list[tuple[float, bool]]] = {}
    for step, lean, label in zip(steps, formation.leans, formation.labels, strict=True):
        squares.setdefault("unsolved" if lean == "-" else lean, []).append((step, label != "unsolved" or lean == "-"))
    for name, snapshots in squares.items():
        marker: dict[str, Any] = {
            "symbol": "square",
            "color": style.MECHANISMS[Mechanism(name).group].colour,
            "opacity": 1,  # plotly makes symbols of several sizes see-through
            "size": [13 if full else 8 for _, full in snapshots],
            "line": {"color": "#444444", "width": 0.8},
        }
        x, y = [step for step, _ in snapshots], [0] * len(snapshots)
        panel.add(go.Scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip"))
