"""What lies in the weights: overlaps of embeddings, and singular values of the first feed-forward matrix."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid, Panel
from counting_interp.probes.designs import letter
from counting_interp.probes.overlap import Overlap
from counting_interp.probes.spectrum import Spectrum

COLOURS = {"same": style.VERMILION, "different": "#8A8F98", "bos": style.SKY}
NAMES = {"same": "same token", "different": "different tokens", "bos": "token and $"}
BINS = 30  # the same for all groups, over the range of all
LEAST_SHARE = 1e-4  # of the largest singular value: where the axis ends

Pair = dict[str, Any]


def pairs_of(result: Overlap) -> list[Pair]:
    """Every pair of tokens once: its names, its group, its inner product and its cosine."""
    size, T = len(result.gram), result.T
    gram, cosine = result.gram.tolist(), result.cosine.tolist()
    found = []
    for i in range(size):
        for j in range(i, size):
            group = "bos_bos" if i == T else "bos" if j == T else "same" if i == j else "different"
            names = {"first": letter(i, T), "second": letter(j, T), "group": group}
            found.append({**names, "inner_product": gram[i][j], "cosine": cosine[i][j]})
    return found


def overlap_panel(panel: Panel, pairs: Sequence[Pair], *, legend: bool = True) -> None:
    """A histogram of inner products in bins that all groups share, with the median of each group as a line."""
    values = [pair["inner_product"] for pair in pairs]
    low, high = min(values), max(values)
    low, high = (low - 0.5, high + 0.5) if high - low < 1e-9 * max(1.0, abs(high)) else (low, high)
    width = (high - low) / BINS
    for group, name in NAMES.items():
        here = [pair["inner_product"] for pair in pairs if pair["group"] == group]
        if not here:
            continue
        counts = [0] * BINS
        for value in here:
            counts[min(BINS - 1, int((value - low) / width))] += 1
        panel.add(
            go.Bar(
                x=[low + (i + 0.5) * width for i in range(BINS)],
                y=[count / len(here) for count in counts],
                width=width,
                marker={"color": COLOURS[group], "line_width": 0},
                opacity=0.75,
                name=name,
                legendgroup=group,
                showlegend=legend,
                hovertemplate=f"{name}, near %{{x:.2f}}: %{{y:.1%}} of them<extra></extra>",
            )
        )
        panel.upright(median(here), color=COLOURS[group], width=1.6, dash="dash")
    for pair in pairs:
        if pair["group"] == "bos_bos":
            panel.upright(pair["inner_product"], color=style.SKY, width=2)
            panel.note("$·$", pair["inner_product"], 0.98, data="x", xanchor="right", yanchor="top", xshift=-3)
    panel.x(
        "inner product ⟨e<sub>t</sub>, e<sub>s</sub>⟩", range=[low - 0.04 * (high - low), high + 0.04 * (high - low)]
    )
    panel.y("share of pairs", tickformat=".0%", rangemode="tozero")


def cosine_panel(panel: Panel, pairs: Sequence[Pair], welch: float) -> None:
    """Every pair as a point, with its name on hover; the least coherence that is possible as lines."""
    groups = [name for name in ("different", "bos") if any(pair["group"] == name for pair in pairs)]
    for level, group in enumerate(groups):
        here = [pair for pair in pairs if pair["group"] == group]
        spread = [
            level + 0.7 * ((i * 0.618034) % 1 - 0.5) for i in range(len(here))
        ]  # spread, the same in every drawing
        panel.add(
            go.Scatter(
                x=[pair["cosine"] for pair in here],
                y=spread,
                mode="markers",
                marker={"color": COLOURS[group], "size": 4, "opacity": 0.6},
                name=NAMES[group],
                showlegend=False,
                customdata=[[f"{pair['first']}·{pair['second']}", pair["inner_product"]] for pair in here],
                hovertemplate="%{customdata[0]}: cosine %{x:.3f}, inner product %{customdata[1]:.2f}<extra></extra>",
            )
        )
    if welch > 0:
        for sign in (-1, 1):
            panel.upright(sign * welch, color=style.BLUE, dash="dot", width=2)
        panel.note("least possible", welch, 0.98, data="x", xanchor="left", yanchor="top", xshift=4)
    panel.x("cosine of two different tokens", range=[-1.02, 1.02])
    names = [NAMES[group].replace(" ", "<br>", 1) for group in groups]
    panel.y(tickvals=list(range(len(groups))), ticktext=names, range=[-0.6, len(groups) - 0.4], showgrid=False)


def overlap_figure(result: Overlap) -> Figure:
    """Left: raw inner products, as the paper draws them. Right: cosines, pair by pair."""
    below = {"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom", "x": 0}
    grid = Grid([2], [250], gap=90, margin={"b": 84}, barmode="overlay", legend=below)
    pairs = pairs_of(result)
    overlap_panel(grid[0], pairs)
    cosine_panel(grid[1], pairs, result.welch)
    welch = (
        f" Dotted: the least coherence that {result.T} vectors can have here, ±{result.welch:.3f}."
        if result.welch > 0
        else ""
    )
    caption = (
        f"Overlaps of embeddings; dashed: medians.{welch} Their coherence is {result.coherence:.3f}. "
        f"The {result.T} tokens fill {result.effective_dimension:.1f} effective dimensions."
    )
    return Figure(grid.figure, name="overlap", title="How much embeddings overlap", caption=caption, table=pairs)


def spectrum_figure(result: Spectrum) -> Figure:
    """Both spectra over their largest value, on a logarithmic axis."""
    grid = Grid([1], [260], width=480, legend={"x": 0.98, "y": 0.98, "xanchor": "right"})
    panel, least = grid[0], 1.0
    for values, name, colour in (
        (result.sigma, "W₁", style.BLUE),
        (result.seen, "weighted by the data", style.VERMILION),
    ):
        first = float(values[0]) or 1.0
        shares = [float(value) / first for value in values]
        shown = [share if share > LEAST_SHARE / 10 else None for share in shares]
        least = min([least, *(share for share in shown if share is not None)])
        panel.add(
            go.Scatter(
                x=list(range(1, len(values) + 1)),
                y=shown,
                mode="lines+markers",
                name=name,
                marker={"size": 4},
                line={"color": colour},
                customdata=values.tolist(),
                hovertemplate=f"{name}, no. %{{x}}: %{{customdata:.3g}}, %{{y:.2g}} of the largest<extra></extra>",
            )
        )
    longest = max(len(result.sigma), len(result.seen))
    panel.x("index", range=[0.4, longest + 0.6], **({"dtick": 1} if longest <= 12 else {}))
    panel.y("singular value / largest", type="log", dtick=1, exponentformat="power")
    if longest > result.T:
        panel.upright(result.T + 0.5, dash="dash")
        panel.note("T", result.T + 0.5, 0.02, data="x", xanchor="left", yanchor="bottom", xshift=3)
    drop = "" if result.drop is None else f" At T they drop by a factor of {result.drop:.2f}."
    caption = (
        f"Singular values of W₁, and standard deviations of the pre-activations along their principal axes, each over "
        f"the largest.{drop} Effective number of directions: {result.participation:.1f} in the weights, "
        f"{result.seen_participation:.1f} in what the layer sees."
    )
    return Figure(
        grid.figure,
        name=f"spectrum-{result.layer + 1}",
        title="Singular values of W₁",
        caption=caption,
        table=result.rows(),
    )
