"""Who looks at whom: the attention pattern of one sequence, and what `$` receives of it, against the count."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.probes.attention import Attention
from counting_interp.probes.bos_share import BosShare

MOST_FRAMED = 64  # places; of more, a frame is smaller than its line


def attention_figure(result: Attention) -> Figure:
    """Percent with a fixed scale from 0 to 100 under a softmax; raw values around zero without one."""
    n, softmax = len(result.labels), result.softmax
    places = [str(i) for i in range(n)]
    values = result.pattern * (100 if softmax else 1)
    largest = float(values.abs().max()) or 1.0
    scale = {"zmin": 0, "zmax": 100, "colorscale": "Blues"} if softmax else style.signed(largest)
    heat = go.Heatmap(
        z=values.tolist(),
        x=places,
        y=places,
        text=[[f"{value:.0f}" if softmax else f"{value:.2g}" for value in row] for row in values.tolist()]
        if n <= 16
        else None,
        texttemplate="%{text}" if n <= 16 else None,
        textfont_size=style.SMALL - 2,
        xgap=1,
        ygap=1,
        colorbar={"title": "%" if softmax else "A", "thickness": 12, "len": 0.9},
        **scale,
    )
    figure = style.apply(go.Figure(heat), 460, 430, margin={"l": 60, "r": 20, "t": 20, "b": 60})
    ticks = {"tickmode": "array", "tickvals": places, "ticktext": list(result.labels), "showgrid": False}
    figure.update_xaxes(title_text="key", constrain="domain", **ticks)
    figure.update_yaxes(title_text="query", autorange="reversed", scaleanchor="x", constrain="domain", **ticks)
    frame = {"type": "rect", "line": {"color": style.VERMILION, "width": 1.5}}
    framed = n <= MOST_FRAMED
    if framed:  # all at once: a figure copies its shapes with each one added
        equal = result.equal.nonzero().tolist()
        places_of = [{"x0": k - 0.46, "x1": k + 0.46, "y0": q - 0.46, "y1": q + 0.46} for q, k in equal]
        figure.update_layout(shapes=[{**frame, **place} for place in places_of])
    seen = (
        "The mixing matrix is constant: it cannot tell equal from different tokens."
        if result.mixer is not None
        else f"A pair of equal tokens scores {'higher' if result.auc > 0.5 else 'lower'} than a pair of different ones "
        f"in {max(result.auc, 1 - result.auc):.1%} of comparisons (50 %: no difference)."
        if result.auc is not None
        else ""
    )
    sequence = "".join(result.labels[:MOST_FRAMED]) + ("" if framed else "\N{HORIZONTAL ELLIPSIS}")
    frames = "; orange frames mark equal tokens" if framed else ""
    caption = f"Mixing pattern for {sequence}{frames}. {seen}".strip()
    return Figure(
        figure,
        name=f"attention-{result.layer + 1}",
        title="Who looks at whom",
        caption=caption,
        table=result.rows(),
    )


def bos_share_figure(result: BosShare) -> Figure:
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
    return Figure(
        figure,
        name=f"bos-share-{result.layer + 1}",
        title="Attention to $ and the count",
        caption=caption,
        table=result.rows(),
    )
