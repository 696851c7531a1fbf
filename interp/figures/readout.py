"""Accuracy against the number of directions that may carry the count."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.readout import Readout


def readout_figure(result: Readout) -> Drawing:
    accuracy = (result.rank_accuracy * 100).tolist()
    figure = go.Figure(
        go.Scatter(x=result.ranks.tolist(), y=accuracy, mode="lines+markers", line_color=style.BLUE, marker_size=5)
    )
    style.apply(figure, 480, 320, showlegend=False)
    figure.update_xaxes(title_text="directions kept", rangemode="tozero")
    figure.update_yaxes(title_text="accuracy (%)", range=[0, 102])
    line = {"color": "#444444", "dash": "dash"}
    figure.add_vline(x=result.T, line=line, annotation_text="T")
    figure.add_hline(y=result.accuracy * 100, line={"color": style.GREY, "dash": "dot"})
    caption = (
        f"Accuracy when only so many directions of the pre-activations may carry the count; the dotted line is the "
        f"whole model. {result.directions} of them keep 95 % of it: a shared direction needs few, an inventory about "
        f"T = {result.T}. A displacement learned from one token moves the prediction of another by "
        f"{result.transfer:.2f} per unit (1: shared, 0: each its own)."
    )
    return Drawing(
        figure, name="readout", title="How many directions carry the count", caption=caption, table=result.rows()
    )
