"""Figures of attention: the pattern on one sequence, attention to `$` by count, and the cue conflict."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel
from counting_interp.probes.attention import Attention
from counting_interp.probes.bos_share import BosShare
from counting_interp.probes.cue_conflict import CueConflict
from counting_interp.probes.designs import letter
from counting_interp.util.text import percent, sampled

MOST_FRAMED = 64  # positions; with more, a frame is smaller than its line
MOST_PRINTED = 16  # positions; with more, numbers do not fit into the cells
THUMBNAILS, MOST_HEADS = 4, 16  # thumbnails per row, and heads up to which thumbnails are drawn


def attention_scale(*results: Attention) -> dict[str, Any]:
    """The colour scale that all patterns share: percent from zero under a softmax, else symmetric around zero."""
    largest = max(float(result.heads.abs().max()) for result in results) or 1.0
    if not results[0].softmax:
        return style.signed(1.25 * largest)  # a dark frame shows on the darkest cell
    return {"zmin": 0, "zmax": min(100, 10 * -(-1000 * largest // 100)), "colorscale": style.SHARES}


def attention_panel(panel: Panel, result: Attention, scale: str, head: int | None = None) -> None:
    """Queries in rows, keys in columns, equal tokens framed. With `head`: a thumbnail of that head, colours only."""
    n, softmax, labels = len(result.labels), result.softmax, result.labels
    positions = [str(i) for i in range(n)]
    pattern = result.pattern if head is None else result.heads[head]
    values = (pattern * (100 if softmax else 1)).tolist()
    printed = n <= MOST_PRINTED and head is None
    of = f", head {result.head if head is None else head}" if len(result.heads) > 1 else ""
    hover_texts = [
        [f"{labels[q]} (position {q + 1}) to {labels[k]} (position {k + 1}){of}: {values[q][k]:.3g}" for k in range(n)]
        for q in range(n)
    ]
    panel.add(
        go.Heatmap(
            z=values,
            x=positions,
            y=positions,
            text=[[(f"{v:.0f}" if softmax else f"{v:.2g}").replace("-", style.MINUS) for v in row] for row in values]
            if printed
            else None,
            texttemplate="%{text}" if printed else None,
            textfont_size=style.TINY,
            customdata=hover_texts,
            hovertemplate=f"%{{customdata}}{' %' if softmax else ''}<extra></extra>",
            xgap=1 if head is None else 0,
            ygap=1 if head is None else 0,
            coloraxis=scale,
        )
    )
    ticks = {"tickmode": "array", "tickvals": positions, "ticktext": list(labels), "showgrid": False, "ticks": ""}
    panel.x("key" if head is None else None, constrain="domain", showticklabels=head is None, **ticks)
    panel.y("query" if head is None else None, autorange="reversed", scaleanchor=panel.references[0], **ticks)
    panel.y(constrain="domain", showticklabels=head is None)
    if n <= MOST_FRAMED and head is None:
        causal = not result.heads.triu(1).any()  # what a position cannot see is no pair
        panel.frame((result.equal.tril() if causal else result.equal).nonzero().tolist())


def attention_figure(result: Attention) -> Figure:
    """The head that best separates equal from different tokens; if there are several, thumbnails of all below it."""
    heads = len(result.heads)
    rows = -(-heads // THUMBNAILS) if 1 < heads <= MOST_HEADS else 0
    sizes = [1, *[THUMBNAILS] * rows], [370, *[90] * rows]
    grid = Grid(*sizes, width=480, gap=14, below=62 if rows == 1 else 40, margin={"r": 62, "t": 24})
    scale = grid.scale(1, attention_scale(result), grid[0], title="%" if result.softmax else "A")
    if rows:
        grid.figure.update_layout(meta=None)  # thumbnails stay small on a narrow page
    attention_panel(grid[0], result, scale)
    for head, panel in enumerate(grid.panels[1:]):
        if head >= heads:
            panel.x(visible=False)
            panel.y(visible=False)
            continue
        attention_panel(panel, result, scale, head)
        panel.title(f"<b>head {head}</b>" if head == result.head else f"head {head}")
    framed = len(result.labels) <= MOST_FRAMED
    of_head = f", head {result.head}" if heads > 1 else ""
    if framed:
        grid[0].title("framed: equal tokens")
    higher = "higher" if (result.auc or 0) > 0.5 else "lower"
    finding = (
        "The mixing matrix is constant: it cannot tell equal from different tokens."
        if result.mixer is not None
        else f"A pair of equal tokens scores {higher} than a pair of different ones in "
        f"{sampled(max(result.auc, 1 - result.auc))} of comparisons (50 %: no difference)."
        if result.auc is not None
        else ""
    )
    sequence = "".join(result.labels[:MOST_FRAMED]) + ("" if framed else "\N{HORIZONTAL ELLIPSIS}")
    framed_words = "; equal tokens are framed" if framed else ""
    caption = f"Attention pattern for {sequence}{of_head}{framed_words}. {finding}".strip()
    return Figure(
        grid.figure,
        name=f"attention-{result.layer + 1}",
        title="Who looks at whom",
        caption=caption,
        table=result.rows(),
    )


def share_panel(panel: Panel, result: BosShare) -> None:
    """Attention to `$` by true count: a thin line for each token, a thick one for the mean."""
    counts = list(range(1, len(result.low) + 1))
    hover = "%{fullData.name}, count %{x}: %{y:.3f}<extra></extra>"
    T = len(result.share)
    thin = {"mode": "lines", "line": {"color": style.SKY, "width": 0.8}, "opacity": 0.5}
    thick = {"mode": "lines+markers", "line": {"color": style.BLUE, "width": 3}, "name": "mean over tokens"}
    lines: list[tuple[list[float], dict[str, Any]]] = [
        (row, {**thin, "name": f"token {letter(i, T)}"}) for i, row in enumerate(result.share.tolist())
    ]
    panel.add(
        *(
            go.Scatter(x=counts, y=row, showlegend=False, hovertemplate=hover, **look)
            for row, look in (*lines, (result.share.mean(0).tolist(), thick))
        )
    )
    panel.x("true count", dtick=1)
    near_one = result.softmax and float(result.high.max()) > 0.6
    panel.y("attention to $", **({"range": [0, 1]} if near_one else {"rangemode": "tozero"}))


def set_share_panel(panel: Panel, result: BosShare, scale: str) -> None:
    """Mean answer when attention to `$` is set to its mean at another count. Framed: set to that of the true count."""
    counts = list(range(1, len(result.low) + 1))
    heat = go.Heatmap(
        z=result.predicted.tolist(),
        x=counts,
        y=counts,
        coloraxis=scale,
        xgap=1,
        ygap=1,
        hovertemplate="true count %{y}, share set to that of %{x}: answer %{z:.2f}<extra></extra>",
    )
    panel.add(heat)
    panel.frame([(k, k) for k in counts])
    panel.x("attention to $ set to that of count", dtick=1, showgrid=False)
    panel.y("true count", dtick=1, showgrid=False)


def answer_scale(L: int) -> dict[str, Any]:
    return {"zmin": 1, "zmax": L, "colorscale": style.SEQUENTIAL}


def bos_share_figure(result: BosShare) -> Figure:
    grid = Grid([2], [260], margin={"r": 70})
    share_panel(grid[0], result)
    set_share_panel(grid[1], result, grid.scale(1, answer_scale(len(result.low)), grid[1], title="answer"))
    grid.titles("attention to $ by count", "answer when we set it")
    by_count = 0.0 if result.by_count is None else result.by_count
    caption = (
        f"Attention to $: {percent(by_count, 0)} of its variance goes with the true count. Right: when it is set to "
        f"the mean of another count, the answer follows in {sampled(result.follows)} of cases (vertical stripes) and "
        f"stays in {sampled(result.stays)}. Framed: set to the mean of its own count."
    )
    return Figure(
        grid.figure,
        name=f"bos-share-{result.layer + 1}",
        title="Attention to $ and the count",
        caption=caption,
        table=result.rows(),
    )


def cue_conflict_figure(result: CueConflict) -> Figure:
    """Copies of t on x, of s on y. Vertical stripes: the answer follows attention (RC); horizontal: the swap (IC)."""
    counts = list(range(1, result.L))
    answers = [[None if value != value else value for value in row] for row in result.map.T.tolist()]
    grid = Grid([1], [330], width=460, margin={"r": 76, "t": 16})
    panel, whole = grid[0], {"dtick": 1} if result.L <= 16 else {}
    scale = grid.scale(1, answer_scale(result.L), panel, title="answer", **whole)
    panel.add(
        go.Heatmap(
            z=answers,
            x=counts,
            y=counts,
            xgap=1,
            ygap=1,
            coloraxis=scale,
            text=[["" if value is None else f"{value:.1f}".removesuffix(".0") for value in row] for row in answers],
            texttemplate="%{text}" if result.L <= 16 else None,
            textfont_size=style.SMALL - 1,
            hovertemplate="%{x} of t, %{y} of s: answer %{z:.2f}<extra></extra>",
            hoverongaps=False,
        )
    )
    look = {"showgrid": False, "constrain": "domain", **whole}
    panel.x("number of t (for which attention compared)", **look)
    panel.y("number of s (patched into the MLP's input)", scaleanchor=panel.references[0], **look)
    with_t, with_s = (round(float(slope), 2) + 0.0 for slope in result.follows)  # no -0.00
    caption = (
        f"Mean answer over {len(result.pairs)} pairs, with s patched into the residual path at a position of t. "
        f"The answer changes by {with_t:.2f} per copy of t and by {with_s:.2f} per copy of s. Relation-based counting "
        "gives 1 and 0: vertical stripes, the number of t. Inventory-based counting gives 0 and 1: horizontal stripes, "
        "one more than the number of s, since the patched position counts too."
    )
    return Figure(
        grid.figure,
        name=f"cue-conflict-{result.layer + 1}",
        title="Whose count comes out?",
        caption=caption,
        table=result.rows(),
    )
