"""The attention that `$` receives, against the true count of the token that gives it."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.bos_share import BosShare


def bos_share_figure(result: BosShare) -> Drawing:
    """Left: one thin line per token, the mean thick. Right: the mean prediction when the share is set by hand."""
    counts = list(range(1, len(result.low) + 1))
    figure = make_subplots(1, 2, horizontal_spacing=0.16, subplot_titles=("what it is", "what it does"))
    for row in result.share.tolist():
        thin = {"color": style.SKY, "width": 0.8}
        figure.add_scatter(x=counts, y=row, mode="lines", line=thin, opacity=0.5, showlegend=False, row=1, col=1)
    mean = {"color": style.BLUE, "width": 3}
    figure.add_scatter(
        x=counts,
        y=result.share.mean(0).tolist(),
        mode="lines+markers",
        line=mean,
        name="mean over tokens",
        row=1,
        col=1,
    )
    heat = go.Heatmap(
        z=result.predicted.tolist(),
        x=counts,
        y=counts,
        zmin=1,
        zmax=counts[-1],
        colorscale=style.SEQUENTIAL,
        colorbar={"title": "predicted", "thickness": 12},
    )
    figure.add_trace(heat, row=1, col=2)
    style.apply(figure, style.FULL_WIDTH, 340, showlegend=False)
    figure.update_xaxes(title_text="true count", dtick=1, row=1, col=1)
    range_ = {"range": [0, 1]} if result.softmax and float(result.high.max()) > 0.6 else {"rangemode": "tozero"}
    figure.update_yaxes(title_text="attention to $", **range_, row=1, col=1)
    figure.update_xaxes(title_text="share set to that of count", dtick=1, showgrid=False, row=1, col=2)
    figure.update_yaxes(title_text="true count", dtick=1, showgrid=False, row=1, col=2)
    by_count = 0.0 if result.by_count is None else result.by_count
    caption = (
        f"Attention to $: {by_count:.0%} of its variance goes with the true count. Right: when it is set by hand to "
        f"the mean of another count, the prediction follows in {result.follows:.0%} of cases (vertical stripes), stays "
        f"in {result.stays:.0%}."
    )
    return Drawing(
        figure,
        name=f"bos-share-{result.layer + 1}",
        title="Attention to $ and the count",
        caption=caption,
        table=result.rows(),
    )
