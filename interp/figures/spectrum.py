"""Singular values of the first feed-forward matrix, and of what it really sees, with a line at the alphabet's size."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.spectrum import Spectrum


def spectrum_figure(result: Spectrum) -> Drawing:
    figure = go.Figure()
    for values, name, colour in (
        (result.sigma, "W₁", style.BLUE),
        (result.seen, "weighted by the data", style.VERMILION),
    ):
        figure.add_scatter(
            x=list(range(1, len(values) + 1)),
            y=values.tolist(),
            mode="lines+markers",
            name=name,
            marker={"size": 4},
            line={"color": colour},
        )
    style.apply(figure, 480, 340, legend={"x": 0.98, "y": 0.98, "xanchor": "right"})
    figure.update_xaxes(title_text="index", range=[0, max(len(result.sigma) + 1, result.T + 2)])
    figure.update_yaxes(title_text="singular value", rangemode="tozero")
    figure.add_vline(x=result.T + 0.5, line={"color": "#444444", "dash": "dash"}, annotation_text="T")
    drop = "" if result.drop is None else f" At T it drops by a factor of {result.drop:.2f}."
    caption = (
        f"Singular values of W₁, and standard deviations of the pre-activations along their principal axes.{drop} "
        f"Effective number of directions: {result.participation:.1f} in the weights, "
        f"{result.seen_participation:.1f} in what the layer sees."
    )
    return Drawing(
        figure, name=f"spectrum-{result.layer + 1}", title="Singular values of W₁", caption=caption, table=result.rows()
    )
