"""How a strategy forms: accuracy and the causal numbers of the verdict over the snapshots of one run."""

from __future__ import annotations

import plotly.graph_objects as go

from interp.classify.formation import Formation
from interp.figures import style
from interp.figures.drawing import Drawing

SERIES = (  # column, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("kept", "count kept without comparison", style.VERMILION, "dash"),
    ("with_t", "follows attention (t)", style.BLUE, "solid"),
    ("with_s", "follows the self path (s)", style.VERMILION, "solid"),
)


def formation_figure(formation: Formation) -> Drawing:
    """The training step on a log axis; one means all of the count."""
    table = [{"step": one.step, **one.verdict.row()} for one in formation.snapshots]
    steps = [max(1, int(row["step"] or 0)) for row in table]
    text = [f"{row['label']} at step {row['step']:,}" for row in table]
    figure = go.Figure()
    for key, name, colour, dash in SERIES:
        values = [row[key] for row in table]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", line=line, name=name, text=text, marker_size=5)
    style.apply(figure, 560, 340)
    figure.update_xaxes(title="training step", type="log")
    figure.update_yaxes(range=[-0.25, 1.25])
    caption = f"Formation of the strategy over {len(table)} snapshots of one run. {formation}"
    return Drawing(figure, name="formation", title="How the strategy forms", caption=caption, table=table)
