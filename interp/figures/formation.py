"""How a strategy forms: accuracy and both mechanism scores over the snapshots of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from interp.figures import style
from interp.figures.drawing import Drawing


@dataclass(frozen=True)
class Moment:
    """One snapshot: its step, and what the classifier found there. All from 0 to 1."""

    step: int
    label: str
    accuracy: float
    rc: float
    ic: float


def formation_figure(moments: Sequence[Moment]) -> Drawing:
    steps = [max(moment.step, 1) for moment in moments]
    figure = go.Figure()
    series = (("accuracy", style.BLACK, "dot"), ("rc", style.BLUE, "solid"), ("ic", style.RED, "solid"))
    for name, colour, dash in series:
        values = [getattr(moment, name) for moment in moments]
        text = [f"{moment.label} at step {moment.step:,}" for moment in moments]
        title = {"accuracy": "accuracy", "rc": "RC score", "ic": "IC score"}[name]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", line=line, name=title, text=text, marker_size=5)
    style.apply(figure, 560, 340)
    figure.update_xaxes(title="training step", type="log")
    figure.update_yaxes(range=[-0.03, 1.03])
    solved = [moment for moment in moments if moment.label != "unsolved"]
    path = " → ".join(dict.fromkeys(moment.label for moment in moments))
    when = f"It first counts at step {solved[0].step:,}." if solved else "It never counts."
    caption = f"Formation of the strategy over {len(moments)} snapshots: {path}. {when}"
    table = [vars(moment) for moment in moments]
    return Drawing(figure, name="formation", caption=caption, table=table)
