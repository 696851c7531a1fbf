"""Figures of the MLP, which the paper calls the feed-forward layer.

Its answers to mixtures of two tokens (along a line, on a sheet of pairs) and of three (on a triangle); logits against
the count; the step function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import log10
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel, sheet
from counting_interp.probes.designs import letter
from counting_interp.probes.isolation import Sweep
from counting_interp.probes.output_curves import OutputCurves, StepFunction
from counting_interp.probes.simplex import Simplex
from counting_interp.util.text import percent

AXES = {
    "bos-sweep": "weight α of $ in α e<sub>$</sub> + (1−α) e<sub>i</sub> + e<sub>j</sub>",
    "count-sweep": "α, from the mixture at count 1 to that at count L",
}
TITLES = {
    "bos-sweep": "The feed-forward layer alone, from no $ to $ only",
    "count-sweep": "The feed-forward layer alone, from count 1 to L",
}
SHEET = 4  # tokens on each side of a sheet
DASHED = {"color": style.VERMILION, "width": 1.2, "dash": "dash"}


def sweep_panel(panel: Panel, result: Sweep, marks: Mapping[str, float] | None = None) -> str:
    """Draws one pair of different tokens in colour, and all other pairs thin behind it.

    Args:
        marks: dashed lines by label, at weights of `$` that occur in the model. The first has room for a long label.

    Returns:
        The coloured pair, such as `i = B, j = C`.
    """
    L = result.boundaries.shape[-1] + 1
    pairs = result.defined.nonzero().tolist()
    first = next((pair for pair in pairs if result.mixed[pair[0]] != result.residual[pair[1]]), pairs[0])
    alphas = result.alphas.tolist()
    hover = "%{fullData.name}, α = %{x:.2f}: count %{y}<extra></extra>"
    traces = []
    for i, j in [*pairs, first]:
        thick = [i, j] == first
        look = {"color": style.BLUE, "width": 3} if thick else {"color": style.GREY, "width": 0.6}
        names = [letter(int(result.mixed[i]), result.T), letter(int(result.residual[j]), result.T)]
        traces.append(
            go.Scatter(
                x=alphas,
                y=result.predicted[i, j].tolist(),
                mode="lines",
                line={**look, "shape": "hv"},
                opacity=1 if thick else 0.35,
                name=f"i = {names[0]}, j = {names[1]}",
                showlegend=False,
                hovertemplate=hover,
            )
        )
    panel.add(*traces)
    for words, share in (marks or {}).items():
        panel.upright(share, **DASHED)
        where: dict[str, Any] = {"data": "x", "xanchor": "right", "xshift": -2, "yanchor": "top"}
        panel.note(words, share, 0.98, font_color=style.VERMILION, font_size=style.TINY, **where)
    panel.x(AXES[result.probe], range=[0, 1])
    panel.y("answer", range=[0.5, L + 0.5], dtick=1 if L <= 12 else None)
    return (
        f"i = {letter(int(result.mixed[first[0]]), result.T)}, j = {letter(int(result.residual[first[1]]), result.T)}"
    )


def sweep_figure(result: Sweep) -> Figure:
    grid = Grid([1], [260], width=560)
    names = sweep_panel(grid[0], result)
    pairs = int(result.defined.sum())
    grid.titles(f"blue: {names}; grey: {pairs - 1:,} other pairs")
    summary = result.summary
    spread = summary["boundary_spread_median"]
    agree = "" if spread is None else f" A boundary lies within {spread:.3f} for all of them (median)."
    caption = (
        f"The feed-forward layer alone, {pairs} pairs of tokens, {names} in blue: answers are monotone in "
        f"{percent(float(summary['monotone_share'] or 0), 0)} of pairs.{agree} One shared direction gives the same "
        "steps for every pair."
    )
    return Figure(grid.figure, name=result.probe, title=TITLES[result.probe], caption=caption, table=result.rows())


def sweep_sheet(result: Sweep, marks: Sequence[float] = ()) -> Figure:
    """Small panels for up to four tokens: mixed token in rows, residual token in columns (Fig. 13 of the paper).

    Args:
        marks: dashed lines in each panel, at weights of `$` that occur in the model.
    """
    n, m = (min(size, SHEET) for size in result.defined.shape)
    L = result.boundaries.shape[-1] + 1
    rows = [letter(int(token), result.T) for token in result.mixed[:n]]
    columns = [letter(int(token), result.T) for token in result.residual[:m]]
    frame = {"l": 60, "r": 34, "t": 30, "b": 54}
    heads = [[f"{role} = {name}" for name in names] for role, names in (("i", rows), ("j", columns))]
    figure, panels = sheet(*heads, width=style.FULL_WIDTH, height=600, margin=frame, showlegend=False)
    shown = result.defined[:n, :m]
    for i, j in product(range(n), range(m)):
        panel = panels[i][j]
        answers = result.predicted[i, j].tolist() if shown[i, j] else [None] * len(result.alphas)
        line = {"color": style.BLUE, "width": 2, "shape": "hv"}
        hover = f"i = {rows[i]}, j = {columns[j]}, α = %{{x:.2f}}: count %{{y}}<extra></extra>"
        panel.add(go.Scatter(x=result.alphas.tolist(), y=answers, mode="lines", line=line, hovertemplate=hover))
        panel.upright(*marks, **DASHED)
        if not shown[i, j]:
            panel.note("i = j", 0.5, 0.5, font_color=style.GREY)
        panel.x("α" if i == n - 1 else "", range=[0, 1], tickvals=[0, 0.5, 1])
        panel.y("answer" if j == 0 else "", range=[0.5, L + 0.5], dtick=1 if L <= 12 else 5)
    share = float(result.monotone[:n, :m][shown].double().mean())
    caption = (
        f"Answer against α ({AXES[result.probe].split(' in ')[0]}) for each mixed token i (rows) and residual token j "
        f"(columns): monotone in {percent(share, 0)} of the panels."
    )
    names = {*rows, *columns}
    table = [row for row in result.rows() if row["mixed_token"] in names and row["residual_token"] in names]
    title = f"{TITLES[result.probe]}, pair by pair"
    return Figure(figure, name=f"{result.probe}-sheet", title=title, caption=caption, table=table)


def count_colours(L: int) -> list[str]:
    """One colour per count 1..L, evenly along the sequential scale."""
    return sample_colorscale(style.SEQUENTIAL, [k / max(1, L - 1) for k in range(L)])


def count_scale(L: int) -> dict[str, Any]:
    """A colour scale with one step for each answer from 1 to L."""
    colours = count_colours(L)
    return {"zmin": 0.5, "zmax": L + 0.5, "colorscale": [[e / L, colours[k]] for k in range(L) for e in (k, k + 1)]}


def simplex_panel(panel: Panel, result: Simplex, residual: int, scale: str) -> None:
    """The answer on the triangle of three tokens, drawn with right angles as in the paper."""
    names = [letter(token, result.T) for token in result.tokens]
    weights = result.weights
    steps = round(1 / float(weights[weights > 0].min()))
    answers: list[list[int | None]] = [[None] * (steps + 1) for _ in range(steps + 1)]
    for (first, second, _), count in zip(weights.tolist(), result.predicted[residual].tolist(), strict=True):
        answers[round(second * steps)][round(first * steps)] = count
    grid = [i / steps for i in range(steps + 1)]
    hover = f"α of {names[0]} %{{x:.2f}}, of {names[1]} %{{y:.2f}}: count %{{z}}<extra></extra>"
    panel.add(go.Heatmap(x=grid, y=grid, z=answers, coloraxis=scale, hovertemplate=hover, hoverongaps=False))
    edge = {"type": "line", "x0": 0, "y0": 1, "x1": 1, "y1": 0, "line": {"color": "#444444", "width": 1.5}}
    panel.shapes(edge)  # hides the staircase of the grid
    half = 0.5 / steps
    ends = {"range": [-half, 1 + half], "constrain": "domain", "showgrid": False, "tickvals": [0, 0.5, 1]}
    panel.x(f"α<sub>{names[0]}</sub>", **ends)
    panel.y(f"α<sub>{names[1]}</sub>", scaleanchor=panel.references[0], **ends)


def simplex_figure(result: Simplex) -> Figure:
    names = [letter(token, result.T) for token in result.tokens]
    L = result.boundaries.shape[-1] + 1
    by_weight = result.summary["variance_by_own_weight"]
    flat = by_weight is None  # all three triangles are the same
    grid = Grid([1], [185], width=330, margin={"r": 74}) if flat else Grid([3], [185], margin={"r": 74})
    bar = {"title": "count", "tickvals": list(range(1, L + 1)) if L <= 12 else None}
    scale = grid.scale(1, count_scale(L), grid.panels[-1], **bar)
    for residual, (name, panel) in enumerate(zip(names, grid.panels, strict=False)):
        simplex_panel(panel, result, residual, scale)
        panel.title("the same for each residual" if flat else f"residual e<sub>{name}</sub>")
    finding = (
        f"The answer is {int(result.predicted[0, 0])} everywhere: the layer ignores how much of each token is "
        "mixed in, so this is not an inventory."
        if by_weight is None
        else f"An inventory reads only the weight of the residual token. That weight explains "
        f"{percent(float(by_weight), 0)} of the answer's variance."
    )
    caption = (
        f"The feed-forward layer alone on a mixture of {', '.join(names)} with weights that add up to one, plus the "
        f"residual. {finding}"
    )
    return Figure(grid.figure, name="simplex", title="Mixtures of three tokens", caption=caption, table=result.rows())


MOST_BEHIND = 1e9  # at most this far below the best logit, so that logits that overflow can be drawn
MOST_NAMED = 30  # counts; with more, their labels would overlap


def output_curves_figure(result: OutputCurves) -> Figure:
    """Each logit minus the best one, so the answer is the curve at zero. One thin curve for each varied token."""
    L = result.logits.shape[2]
    occurrences = list(range(1, L + 1))
    behind = (result.logits - result.logits.amax(-1, keepdim=True)).clamp(min=-MOST_BEHIND)
    heights, mean = -(1 - behind).log10(), behind.mean(0)  # a logarithmic axis that includes 0
    grid = Grid([1], [style.height_for_legend(L, 380) - 100], width=560, legend={"title": "count"}, margin={"r": 90})
    hover = "%{fullData.name} at %{x} occurrences: %{customdata:.1f} behind the best<extra></extra>"
    for k, colour in enumerate(count_colours(L)):
        gapped = [value for curve in heights[:, :, k].tolist() for value in (*curve, None)]
        steps = [*occurrences, None] * len(result.varied)
        thin = {"mode": "lines", "line": {"color": colour, "width": 0.6}, "opacity": 0.35, "showlegend": False}
        thick = {"mode": "lines", "line": {"color": colour, "width": 2.5}, "name": str(k + 1)}
        middle = (-(1 - mean[:, k]).log10()).tolist()
        grid[0].add(
            go.Scatter(x=steps, y=gapped, hoverinfo="skip", **thin),
            go.Scatter(x=occurrences, y=middle, customdata=mean[:, k].tolist(), hovertemplate=hover, **thick),
        )
    largest = max(1.0, -float(heights.min()))
    ticks = [0, *(10**i for i in range(int(largest) + 1))]
    grid[0].x("occurrences of the counted token", dtick=1 if L <= 20 else 5)
    grid[0].y("logit minus the best logit", range=[-1.04 * largest, 0.04 * largest])
    grid[0].y(tickvals=[-log10(1 + tick) for tick in ticks], ticktext=[f"−{tick:,}" if tick else "0" for tick in ticks])
    fixed = letter(result.fixed, result.T)
    role = f"counted token {fixed}, each other token as filler"
    if result.varies == "counted":
        role = f"each token counted, filler {fixed}"
    caption = (
        f"Logits of counts 1..{L} minus the best of them ({role}): the curve at zero is the answer. It is right in "
        f"{percent(float(result.summary['accuracy'] or 0))} of the cases. Where thin curves coincide, the read-out "
        "ignores which tokens are involved. The axis is logarithmic away from zero."
    )
    return Figure(
        grid.figure, name="output-curves", title="Logits against the count", caption=caption, table=result.rows()
    )


def step_function_figure(result: StepFunction) -> Figure:
    """Logits as lines over the hidden unit; a band and a vertical line for each count, in its colour."""
    values, boundaries = result.values.tolist(), result.boundaries.tolist()
    low, high = min(values), max(values)
    margin = 0.12 * (high - low)
    ends = [low - margin, high + margin]
    colours = count_colours(len(values))
    grid = Grid([1], [300], width=620, margin={"r": 30})
    panel = grid[0]
    band = {"type": "rect", "yref": f"{panel.references[1]} domain", "y0": 0, "y1": 1, "line": {"width": 0}}
    rising = values[-1] > values[0]
    edges = [ends[0], *boundaries, ends[1]] if rising else [ends[1], *boundaries, ends[0]]
    panel.shapes(
        *(
            {**band, "x0": edges[k], "x1": edges[k + 1], "fillcolor": colour, "opacity": 0.13, "layer": "below"}
            for k, colour in enumerate(colours)
        )
    )
    steps = [ends[0] + (ends[1] - ends[0]) * i / 60 for i in range(61)]
    lines = [
        [slope * value + intercept for value in steps]
        for slope, intercept in zip(result.slopes.tolist(), result.intercepts.tolist(), strict=True)
    ]
    panel.add(
        *(
            go.Scatter(
                x=steps,
                y=logits,
                mode="lines",
                line={"color": colour, "width": 2},
                name=f"count {k}",
                showlegend=False,
                hovertemplate=f"logit of count {k} at %{{x:.3f}}: %{{y:.2f}}<extra></extra>",
            )
            for k, (logits, colour) in enumerate(zip(lines, colours, strict=True), 1)
        )
    )
    panel.shapes(
        *(panel.upright_shape(value, color=colour, width=2) for value, colour in zip(values, colours, strict=True)),
        *(panel.upright_shape(value, color=style.GREY, width=1, dash="dash") for value in boundaries),
    )
    if len(values) <= MOST_NAMED:
        for k, value in enumerate(values, 1):
            panel.note(f"<b>{k}</b>", value, 1, data="x", yanchor="bottom", yshift=2)
    top = [max(column) for column in zip(*lines, strict=True)]
    span = max(top) - min(top)
    panel.x("value of the hidden unit", range=ends)
    panel.y("logit", range=[min(top) - 0.5 * span, max(top) + 0.1 * span])
    caption = (
        "Each logit is a linear function of the one hidden unit that counts. Solid: the unit's values at counts 1, 2, "
        "...; dashed: boundaries, where neighbouring logits cross; bands: the count that is the answer."
    )
    return Figure(
        grid.figure, name="step-function", title="From one number to a count", caption=caption, table=result.rows()
    )
