"""How the count is read out: logits against the count, and the step function."""

from __future__ import annotations

from math import log10

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.grid import Grid
from counting_interp.interp.figures.isolation import count_colours
from counting_interp.probes.designs import letter
from counting_interp.probes.output_curves import OutputCurves, StepFunction

MOST_BEHIND = 1e9  # of a logit: weights that overflow are drawn, too
MOST_NAMED = 30  # counts; the names of more would cover each other


def output_curves_figure(result: OutputCurves) -> Figure:
    """Each logit minus the best one: the answer is the curve at zero. One thin curve for each varied token."""
    L = result.logits.shape[2]
    occurrences = list(range(1, L + 1))
    behind = (result.logits - result.logits.amax(-1, keepdim=True)).clamp(min=-MOST_BEHIND)
    heights, mean = -(1 - behind).log10(), behind.mean(0)  # 0 stays 0, and what is far behind comes closer
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
        f"{result.summary['accuracy']:.1%} of the cases. Thin curves that lie together mean that the read-out does not "
        "ask which tokens take part. The axis is logarithmic away from zero."
    )
    return Figure(
        grid.figure, name="output-curves", title="Logits against the count", caption=caption, table=result.rows()
    )


def step_function_figure(result: StepFunction) -> Figure:
    """The logits as lines; a band and a vertical line for each count, in its colour."""
    values, boundaries = result.values.tolist(), result.boundaries.tolist()
    low, high = min(values), max(values)
    margin = 0.12 * (high - low)
    ends = [low - margin, high + margin]
    colours = count_colours(len(values))
    grid = Grid([1], [300], width=620, margin={"r": 30})
    panel = grid[0]
    upright = {"type": "rect", "yref": f"{panel.references[1]} domain", "y0": 0, "y1": 1, "line": {"width": 0}}
    rising = values[-1] > values[0]
    edges = [ends[0], *boundaries, ends[1]] if rising else [ends[1], *boundaries, ends[0]]
    panel.shapes(
        *(
            {**upright, "x0": edges[k], "x1": edges[k + 1], "fillcolor": colour, "opacity": 0.13, "layer": "below"}
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
        "Each logit is a straight line in the value of the one hidden unit that counts. Solid: its values at counts "
        "1, 2, ...; dashed: the boundaries, where neighbouring lines cross; bands: which count is the answer."
    )
    return Figure(
        grid.figure, name="step-function", title="From one number to a count", caption=caption, table=result.rows()
    )
