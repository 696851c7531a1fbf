"""How much embeddings overlap: a token with itself, with others, with `$`; and how close to optimal they are."""

from __future__ import annotations

from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.overlap import Overlap

COLOURS = {"same": style.VERMILION, "different": style.GREY, "bos": style.SKY}
NAMES = {"same": "same token", "different": "different tokens", "bos": "token and $"}


def overlap_figure(result: Overlap) -> Drawing:
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
    return Drawing(figure, name="overlap", title="How much embeddings overlap", caption=caption, table=result.rows())
