"""How a mechanism forms: accuracy and shares at the snapshots of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel
from counting_interp.interp.verdict.files import Formation
from counting_interp.interp.verdict.verdict import Mechanism
from counting_interp.util.text import describe

SERIES = (  # column, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("rc", "share of RC", style.MECHANISMS["RC"].colour, "solid"),
    ("ic", "share of IC", style.MECHANISMS["IC"].colour, "solid"),
    ("gated", "share gated", style.MECHANISMS["gated"].colour, "solid"),
)


def formation_figure(formation: Formation) -> Figure:
    """Shares and accuracy by training step, on a logarithmic axis that includes step 0. Below: the verdict on each
    snapshot, a small square while the model is unsolved."""
    table = [{"step": snapshot.step, **snapshot.verdict.to_row()} for snapshot in formation.snapshots]
    steps = [step_coordinate(int(row["step"] or 0)) for row in table]
    text = [f"{row['mechanism']} at step {row['step']:,}" for row in table]
    grid = Grid([1, 1], [270, 34], width=640, below=8, margin={"b": 80}, legend=style.BELOW)
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
    axis: dict[str, Any] = {"tickvals": [step_coordinate(tick) for tick in ticks], "range": [-0.1, steps[-1] + 0.1]}
    curves.x(showticklabels=False, **axis)
    strip.x("training step", ticktext=[f"{tick:,}" for tick in ticks], **axis)
    values = [value for key, *_ in SERIES for row in table if isinstance(value := row[key], (int, float))]
    curves.y("share of the count", range=[min(-0.1, *values) - 0.05, max(1.1, *values) + 0.05])
    strip.y(range=[-1, 1], tickvals=[0], ticktext=["verdict"], showgrid=False)
    if formation.forms_at is not None:
        for panel in grid.panels:
            panel.upright(step_coordinate(formation.forms_at), color="#222222", dash="dot")
        words = f"{formation.labels[-1]} settled at step {formation.forms_at:,}"
        curves.note(words, step_coordinate(formation.forms_at), 1, data="x", xanchor="right", yanchor="bottom")
    grid.figure.update_layout(meta=None)  # one time axis: the strip stays below its curves
    caption = (
        f"Formation of the mechanism over {len(table)} snapshots of one run. {formation} Squares: the verdict, in the "
        "colours of the curves (pink: mixed, grey: none); small squares: unsolved, in the colour it leans towards."
    )
    spec = formation.snapshots[-1].verdict.spec
    about = "" if spec is None else f"{describe(spec)}; {len(table)} snapshots of one run; small squares: unsolved"
    title = "How the mechanism forms"
    return Figure(grid.figure, name="formation", title=title, caption=caption, table=table, about=about)


def step_coordinate(step: int) -> float:
    """The coordinate of a step on the axis: logarithmic, with step 0 at its left end."""
    return log10(1 + step)


def _verdicts(panel: Panel, formation: Formation, steps: Sequence[float]) -> None:
    """One square for each snapshot, in the colour of its mechanism."""
    leans = [Mechanism("unsolved" if lean == "-" else lean) for lean in formation.leans]
    marker: dict[str, Any] = {
        "symbol": "square",
        "color": [style.MECHANISMS[lean.group].colour for lean in leans],
        "opacity": 1,  # plotly's default for markers of several sizes is translucent
        "size": [8 if label == "unsolved" else 13 for label in formation.labels],
        "line": {"color": "#444444", "width": 0.8},
    }
    words = [
        f"unsolved, leans {lean}" if label == "unsolved" and lean.value != label else label
        for lean, label in zip(leans, formation.labels, strict=True)
    ]
    squares = {"x": list(steps), "y": [0] * len(steps), "mode": "markers", "marker": marker, "showlegend": False}
    panel.add(go.Scatter(text=words, hovertemplate="%{text}<extra></extra>", **squares))
