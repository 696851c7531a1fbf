"""How a strategy forms: accuracy and both mechanism scores over the snapshots of one run."""

from __future__ import annotations

import plotly.graph_objects as go

from interp.classify.formation import Formation
from interp.figures import style
from interp.figures.drawing import Drawing

SERIES = (  # key, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("RC", "RC score", style.BLUE, "solid"),
    ("IC", "IC score", style.VERMILION, "solid"),
)


def formation_figure(formation: Formation) -> Drawing:
    """The training step on a log axis; all three quantities from 0 to 1."""
    table = [
        {"step": one.step, "label": one.verdict.label, "accuracy": one.verdict.accuracy, **one.verdict.scores}
        for one in formation.snapshots
    ]
    steps = [max(1, int(row["step"] or 0)) for row in table]
    text = [f"{row['label']} at step {row['step']:,}" for row in table]
    figure = go.Figure()
    for key, name, colour, dash in SERIES:
        values = [row[key] for row in table]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", line=line, name=name, text=text, marker_size=5)
    style.apply(figure, 560, 340)
    figure.update_xaxes(title="training step", type="log")
    figure.update_yaxes(range=[-0.03, 1.03])
    caption = f"Formation of the strategy over {len(table)} snapshots of one run. {formation}"
    return Drawing(figure, name="formation", title="How the strategy forms", caption=caption, table=table)
