"""Figures of the weights: overlaps of embeddings, singular values of the first feed-forward matrix, and the number of
directions that carry the count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log10
from statistics import median
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel
from counting_interp.probes.designs import letter
from counting_interp.probes.overlap import Overlap
from counting_interp.probes.readout import Readout
from counting_interp.probes.spectrum import Spectrum

COLOURS = {"same": style.VERMILION, "different": "#8A8F98", "bos": style.SKY}
NAMES = {"same": "same token", "different": "different tokens", "bos": "token and $"}
BINS = 30  # shared by all groups, over the range of all values
LEAST_SHARE = 1e-4  # of the largest singular value: where the axis ends

Pair = dict[str, Any]


def pairs_of(result: Overlap) -> list[Pair]:
    """Every pair of tokens once: names, group, inner product and cosine."""
    size, T = len(result.gram), result.T
    gram, cosine = result.gram.tolist(), result.cosine.tolist()
    pairs = []
    for i in range(size):
        for j in range(i, size):
            group = "bos_bos" if i == T else "bos" if j == T else "same" if i == j else "different"
            names = {"first": letter(i, T), "second": letter(j, T), "group": group}
            pairs.append({**names, "inner_product": gram[i][j], "cosine": cosine[i][j]})
    return pairs


def overlap_panel(panel: Panel, pairs: Sequence[Pair]) -> None:
    """A histogram of inner products in bins that all groups share, with the median of each group as a line."""
    values = [pair["inner_product"] for pair in pairs]
    low, high = min(values), max(values)
    width = (high - low) / BINS or 1.0
    for group, name in NAMES.items():
        in_group = [pair["inner_product"] for pair in pairs if pair["group"] == group]
        if not in_group:
            continue
        counts = Counter(min(BINS - 1, int((value - low) / width)) for value in in_group)
        panel.add(
            go.Bar(
                x=[low + (i + 0.5) * width for i in range(BINS)],
                y=[100 * counts[i] / len(in_group) for i in range(BINS)],
                width=width,
                marker={"color": COLOURS[group], "line_width": 0},
                opacity=0.75,
                name=name,
                showlegend=False,
                hovertemplate=f"{name}, near %{{x:.2f}}: %{{y:.1f}} % of them<extra></extra>",
            )
        )
        panel.upright(median(in_group), color=COLOURS[group], width=1.6, dash="dash")
    for pair in pairs:
        if pair["group"] == "bos_bos":
            panel.upright(pair["inner_product"], color=style.SKY, width=2)
            panel.note("$·$", pair["inner_product"], 0.98, data="x", xanchor="right", yanchor="top", xshift=-3)
    pad = 0.04 * (high - low)
    panel.x("inner product ⟨e<sub>t</sub>, e<sub>s</sub>⟩", range=[low - pad, high + pad])
    panel.y("% of pairs", rangemode="tozero")


def in_colours(names: Mapping[str, str]) -> str:
    """Coloured names for the title of a panel, which replaces a legend."""
    return ", ".join(f'<span style="color:{colour}"><b>{name}</b></span>' for name, colour in names.items())


def groups_of(pairs: Sequence[Pair]) -> str:
    """The coloured names of the groups among the pairs."""
    present = {pair["group"] for pair in pairs}
    return in_colours({name: COLOURS[group] for group, name in NAMES.items() if group in present})


def strip_panel(panel: Panel, pairs: Sequence[Pair]) -> None:
    """A point for each pair, with its name on hover, and the median of each group."""
    groups = [name for name in NAMES if any(pair["group"] == name for pair in pairs)]
    for level, group in enumerate(groups):
        members = [pair for pair in pairs if pair["group"] == group]
        panel.add(
            go.Scatter(
                x=[pair["inner_product"] for pair in members],
                y=[level + 0.7 * ((i * 0.618034) % 1 - 0.5) for i in range(len(members))],  # deterministic jitter
                mode="markers",
                marker={"color": COLOURS[group], "size": 4, "opacity": 0.6},
                name=NAMES[group],
                showlegend=False,
                customdata=[[f"{pair['first']}·{pair['second']}", pair["cosine"]] for pair in members],
                hovertemplate="%{customdata[0]}: inner product %{x:.2f}, cosine %{customdata[1]:.3f}<extra></extra>",
            )
        )
        middle = median(pair["inner_product"] for pair in members)
        line = {"color": "#222222", "width": 1.6}
        panel.shapes({"type": "line", "x0": middle, "x1": middle, "y0": level - 0.42, "y1": level + 0.42, "line": line})
    panel.x("inner product ⟨e<sub>t</sub>, e<sub>s</sub>⟩")
    names = [NAMES[group].replace(" ", "<br>", 1) for group in groups]
    panel.y(tickvals=list(range(len(groups))), ticktext=names, range=[-0.6, len(groups) - 0.4], showgrid=False)


def gram_panel(panel: Panel, result: Overlap, scale: str) -> None:
    """Cosines of all pairs, ordered so that similar tokens are adjacent."""
    order = result.order
    names = [letter(token, result.T) for token in order]
    panel.add(
        go.Heatmap(
            z=result.cosine[order][:, order].tolist(),
            x=names,
            y=names,
            customdata=result.gram[order][:, order].tolist(),
            coloraxis=scale,
            hovertemplate="%{y}·%{x}: cosine %{z:.3f}, inner product %{customdata:.2f}<extra></extra>",
        )
    )
    shown = names[:: -(-len(names) // 16)]
    ticks: dict[str, Any] = {
        "tickvals": shown,
        "tickfont_size": style.TINY,
        "showgrid": False,
        "constrain": "domain",
        "ticks": "",
    }
    panel.x(tickangle=0, **ticks)
    panel.y(autorange="reversed", scaleanchor=panel.references[0], **ticks)


def overlap_figure(result: Overlap) -> Figure:
    """Left: inner products, a point for each pair. Right: the matrix of cosines, similar tokens adjacent."""
    grid = Grid([2], [250], gap=40, margin={"l": 84, "r": 70})
    pairs = pairs_of(result)
    strip_panel(grid[0], pairs)
    gram_panel(grid[1], result, grid.scale(1, style.signed(1), grid[1], title="cosine"))
    grid.titles("every pair, medians", "cosines, similar tokens together")
    bound = f", at least {result.welch:.3f} for {result.T} vectors here" if result.welch > 0 else ""
    caption = (
        f"Overlaps of embeddings. The largest |cosine| of two tokens is {result.coherence:.3f}{bound}. The {result.T} "
        f"tokens fill {result.effective_dimension:.1f} effective dimensions."
    )
    return Figure(grid.figure, name="overlap", title="How much embeddings overlap", caption=caption, table=pairs)


def sigma_panel(panel: Panel, result: Spectrum) -> None:
    """Both spectra, divided by their largest value. Hovering names the tokens nearest to a direction of W1."""
    spectra = {
        "W₁": (style.BLUE, result.sigma, [f", nearest tokens {names}" for names in result.nearest]),
        "weighted by the data": (style.VERMILION, result.seen, [""] * len(result.seen)),
    }
    for name, (colour, values, words) in spectra.items():
        shares = [float(value) / (float(values[0]) or 1.0) for value in values]
        shown = [i for i, share in enumerate(shares) if share > LEAST_SHARE]
        panel.add(
            go.Scatter(
                x=[i + 1 for i in shown],
                y=[shares[i] for i in shown],
                mode="lines+markers",
                name=name,
                showlegend=False,
                marker={"size": 4},
                line={"color": colour},
                customdata=[[float(values[i]), words[i]] for i in shown],
                hovertemplate=f"{name}, no. %{{x}}: %{{customdata[0]:.3g}}, %{{y:.2g}} of the largest"
                "%{customdata[1]}<extra></extra>",
            )
        )
    panel.y("singular value / largest", type="log", tickvals=[1, 0.1, 0.01, 0.001], range=[-3.6, 0.2])
    panel.y(ticktext=["1", "0.1", "0.01", "0.001"])
    panel.title(in_colours({name: colour for name, (colour, *_) in spectra.items()}))


def rank_panel(panel: Panel, result: Readout) -> None:
    """Accuracy against the number of directions kept."""
    ranks, accuracies = result.ranks.tolist(), (result.rank_accuracy * 100).tolist()
    panel.level(result.accuracy * 100, color=style.GREY, dash="dot")
    if ranks[0] == 0:  # a logarithmic axis cannot show rank 0
        panel.level(accuracies[0], color=style.GREY, dash="dot")
        panel.note("no direction kept", 0.01, accuracies[0], data="y", xanchor="left", yanchor="top")
        ranks, accuracies = ranks[1:], accuracies[1:]
    look = {"mode": "lines+markers", "line_color": style.BLUE, "marker_size": 4, "showlegend": False}
    hover = "%{x} directions: %{y:.1f} % right<extra></extra>"
    panel.add(go.Scatter(x=ranks, y=accuracies, name="accuracy", hovertemplate=hover, **look))
    panel.y("accuracy (%)", range=[-6, 106])


def directions_axis(panels: Sequence[Panel], title: str, most: int, T: int) -> None:
    """The logarithmic axis that spectra and read-outs share, with a line at T."""
    ticks = [2**i for i in range(12) if 2**i <= most]
    for panel in panels:
        panel.x(type="log", tickvals=ticks, range=[-0.05, log10(max(2, most)) + 0.05])
        if most >= T:
            panel.upright(T, dash="dash")
            panel.note("T", log10(T), 0.02, data="x", xanchor="left", yanchor="bottom", xshift=3)
    panels[-1].x(title)


def spectrum_figure(result: Spectrum, readout: Readout | None = None) -> Figure:
    """Singular values; with the read-out of the same block, below them the accuracy by number of directions kept."""
    grid = Grid([1, 1] if readout else [1], [210, 150] if readout else [210], width=520, below=24)
    sigma_panel(grid[0], result)
    drop = "" if result.drop is None else f" At T they drop by a factor of {result.drop:.2f}."
    caption = (
        f"Singular values of W₁, and standard deviations of the pre-activations along their principal axes, each over "
        f"the largest.{drop} Effective number of directions: {result.participation:.1f} in the weights, "
        f"{result.seen_participation:.1f} in what the layer sees."
    )
    table, most = result.rows(), len(result.sigma)
    if readout:
        rank_panel(grid[1], readout)
        grid[0].x(showticklabels=False)
        grid.figure.update_layout(meta=None)  # one shared axis: a narrow page does not stack these panels
        caption = f"Top: {caption} Bottom: {_worth(readout)}"
        most = max(most, int(readout.ranks[-1]))
        table = [{**row, "accuracy": None} for row in table]
        table += [
            {"spectrum": "kept", "index": row["rank"], "sigma": None, "nearest_tokens": "", "accuracy": row["accuracy"]}
            for row in readout.rows()
        ]
    directions_axis(grid.panels, "direction, and how many are kept" if readout else "index", most, result.T)
    title = "Directions of W₁, and how many carry the count" if readout else "Singular values of W₁"
    return Figure(grid.figure, name=f"spectrum-{result.layer + 1}", title=title, caption=caption, table=table)


def readout_figure(result: Readout) -> Figure:
    grid = Grid([1], [230], width=520, margin={"t": 20})
    rank_panel(grid[0], result)
    directions_axis(grid.panels, "directions kept", int(result.ranks[-1]), result.T)
    title = "How many directions carry the count"
    return Figure(grid.figure, name="readout", title=title, caption=_worth(result), table=result.rows())


def _worth(result: Readout) -> str:
    return (
        f"Accuracy when only that many directions of the pre-activations are kept; dotted: the whole model. "
        f"{result.directions} directions keep 95 % of it. Counting along a shared direction needs few, an inventory "
        f"about T = {result.T}. A displacement learned from one token moves the answer of another by "
        f"{result.transfer:.2f} per unit (1: shared, 0: each its own)."
    )
