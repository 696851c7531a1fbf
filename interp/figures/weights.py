"""What lies in the weights: overlaps of embeddings, and singular values of the first feed-forward matrix."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.probes.overlap import Overlap
from counting_interp.probes.spectrum import Spectrum

COLOURS = {"same": style.VERMILION, "different": style.GREY, "bos": style.SKY}
NAMES = {"same": "same token", "different": "different tokens", "bos": "token and $"}


def overlap_figure(result: Overlap) -> Figure:
    """Left: raw inner products, as the paper draws them. Right: cosines, with the Welch bound."""
    figure = make_subplots(1, 2, horizontal_spacing=0.12, subplot_titles=("inner product", "cosine"))
    for column, cosine in ((1, False), (2, True)):
        for bars in result.histograms(cosine=cosine):
            if cosine and bars.series == "same":
                continue  # one by definition
            edges = bars.edges
            figure.add_bar(
                x=((edges[1:] + edges[:-1]) / 2).tolist(),
                y=bars.density.tolist(),
                width=(edges[1:] - edges[:-1]).tolist(),
                marker={"color": COLOURS[bars.series], "line_width": 0},
                opacity=0.75,
                name=NAMES[bars.series],
                showlegend=column == 1,
                row=1,
                col=column,
            )
    for value in result.values("bos_bos").tolist():
        figure.add_vline(x=value, line={"color": style.SKY, "dash": "dash"}, row=1, col=1)
    style.apply(
        figure,
        style.FULL_WIDTH,
        370,
        barmode="overlay",
        margin={"l": 60, "r": 20, "t": 40, "b": 110},
        legend={"orientation": "h", "y": -0.5},
    )
    for sign in (-1, 1):
        bound = {"color": style.BLUE, "dash": "dot", "width": 2}
        figure.add_vline(x=sign * result.welch, line=bound, row=1, col=2)
    figure.update_xaxes(title_text="⟨e<sub>t</sub>, e<sub>s</sub>⟩", row=1, col=1)
    figure.update_xaxes(title_text="cosine", range=[-1.02, 1.02], row=1, col=2)
    figure.update_yaxes(title_text="density", row=1, col=1)
    dollar = " The dashed line is $ with itself." if len(result.values("bos_bos")) else ""
    caption = (
        f"Overlaps of embeddings.{dollar} Dotted: the Welch bound ±{result.welch:.3f}, the least coherence that "
        f"{result.T} vectors can have in this dimension; here it is {result.coherence:.3f}. The {result.T} tokens fill "
        f"{result.effective_dimension:.1f} effective dimensions."
    )
    return Figure(figure, name="overlap", title="How much embeddings overlap", caption=caption, table=result.rows())


def spectrum_figure(result: Spectrum) -> Figure:
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
    return Figure(
        figure, name=f"spectrum-{result.layer + 1}", title="Singular values of W₁", caption=caption, table=result.rows()
    )
