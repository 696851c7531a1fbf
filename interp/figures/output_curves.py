"""Logits against the number of occurrences: the step figure of the paper, for any model."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.simplex import count_colours
from counting_interp.probes.designs import letter
from counting_interp.probes.output_curves import OutputCurves


def output_curves_figure(result: OutputCurves) -> Drawing:
    """One colour per count; one thin curve for each varied token, their mean thick."""
    L = result.logits.shape[2]
    occurrences = list(range(1, L + 1))
    figure = go.Figure()
    for k, colour in enumerate(count_colours(L)):
        gapped = [value for curve in result.logits[:, :, k].tolist() for value in (*curve, None)]
        steps = [*occurrences, None] * len(result.varied)
        thin = {"color": colour, "width": 0.6}
        figure.add_scatter(x=steps, y=gapped, mode="lines", line=thin, opacity=0.35, showlegend=False)
        mean = result.logits[:, :, k].mean(0).tolist()
        figure.add_scatter(x=occurrences, y=mean, mode="lines", line={"color": colour, "width": 2.5}, name=str(k + 1))
    style.apply(figure, 560, style.height_for_legend(L, 380), legend={"title": "logit of count"})
    figure.update_xaxes(title_text="occurrences of the counted token", dtick=1 if L <= 20 else 5)
    figure.update_yaxes(title_text="logit")
    fixed = letter(result.fixed, result.T)
    role = f"counted token {fixed}, each other token as filler"
    if result.varies == "counted":
        role = f"each token counted, filler {fixed}"
    caption = (
        f"Logits of counts 1..{L} ({role}). The highest is right in {result.summary['accuracy']:.1%} of the cases; "
        "curves that lie together mean that the read-out does not ask which tokens take part."
    )
    return Drawing(figure, name="output-curves", title="Logits against the count", caption=caption, table=result.rows())
