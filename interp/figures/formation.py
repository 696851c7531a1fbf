"""How a strategy forms: accuracy and the three shares of the verdict over the snapshots of one run."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.mechanism_map import COLOURS
from counting_interp.interp.verdict.formation import Formation
from counting_interp.interp.verdict.verdict import Mechanism

SERIES = (  # column, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("rc", "share of RC", style.BLUE, "solid"),
    ("ic", "share of IC", style.VERMILION, "solid"),
    ("gated", "share gated", COLOURS["gated"], "solid"),
)
STRIP = -0.75  # where the verdicts stand, below the curves


def formation_figure(formation: Formation) -> Drawing:
    """The training step on an axis that is logarithmic and has a place for 0; one means all of the count. Below, the
    verdict on each snapshot, small while it is only what an unsolved model leans to."""
    table = [{"step": one.step, **one.verdict.to_row()} for one in formation.snapshots]
    steps = [place(int(row["step"] or 0)) for row in table]
    text = [f"{row['mechanism']} at step {row['step']:,}" for row in table]
    figure = go.Figure()
    for key, name, colour, dash in SERIES:
        values = [row[key] for row in table]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", line=line, name=name, text=text, marker_size=5)
    _verdicts(figure, formation, steps)
    below = {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0}
    style.apply(figure, 640, 440, margin={"l": 60, "r": 20, "t": 20, "b": 130}, legend=below)
    ticks = [0, *(10**i for i in range(int(steps[-1]) + 1))]
    names = [f"{tick:,}" for tick in ticks]
    figure.update_xaxes(title_text="training step", tickvals=[place(tick) for tick in ticks], ticktext=names)
    figure.update_yaxes(range=[-0.9, 1.35], tickvals=[STRIP, 0, 0.5, 1], ticktext=["verdict", "0", "0.5", "1"])
    if formation.forms_at is not None:
        _settled(figure, formation.labels[-1], formation.forms_at)
    caption = f"Formation of the strategy over {len(table)} snapshots of one run. {formation}"
    return Drawing(figure, name="formation", title="How the strategy forms", caption=caption, table=table)


def place(step: int) -> float:
    """On the axis: logarithmic, with step 0 at its left end."""
    return log10(1 + step)


def _verdicts(figure: go.Figure, formation: Formation, steps: Sequence[float]) -> None:
    """One square for each snapshot, and for each verdict that occurs one entry of the legend."""
    squares: dict[str, list[tuple[float, bool]]] = {}
    for step, lean, label in zip(steps, formation.leans, formation.labels, strict=True):
        squares.setdefault("unsolved" if lean == "-" else lean, []).append((step, label != "unsolved" or lean == "-"))
    for name, found in squares.items():
        marker: dict[str, Any] = {
            "symbol": "square",
            "color": COLOURS[Mechanism(name).group],
            "opacity": 1,  # plotly makes symbols of several sizes see-through
            "size": [13 if full else 8 for _, full in found],
            "line": {"color": "#444444", "width": 0.8},
        }
        x, y = [step for step, _ in found], [STRIP] * len(found)
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip")


def _settled(figure: go.Figure, label: str, step: int) -> None:
    """A line where the last verdict begins to stay."""
    x = place(step)
    line = {"color": "#222222", "width": 1, "dash": "dot"}
    figure.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", line=line)
    figure.add_annotation(
        x=x, y=1.26, text=f"{label} settled at step {step:,} ", showarrow=False, xanchor="right", font_size=style.SMALL
    )
