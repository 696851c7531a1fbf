"""How the count is read out: logits against the count, the step function, and the number of directions."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.isolation import count_colours
from counting_interp.probes.output_curves import OutputCurves
from counting_interp.probes.readout import Readout
from counting_interp.probes.sequences import letter
from counting_interp.probes.step_function import StepFunction


def output_curves_figure(result: OutputCurves) -> Figure:
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
    return Figure(figure, name="output-curves", title="Logits against the count", caption=caption, table=result.rows())


def step_function_figure(result: StepFunction) -> Figure:
    low, high = float(result.values.min()), float(result.values.max())
    margin = 0.08 * (high - low)
    grid = [low - margin + (high - low + 2 * margin) * i / 200 for i in range(201)]
    lines = [
        [slope * value + intercept for value in grid]
        for slope, intercept in zip(result.slopes.tolist(), result.intercepts.tolist(), strict=True)
    ]
    figure = go.Figure(
        [
            {"type": "scatter", "x": grid, "y": line, "mode": "lines", "line": {"color": colour}, "name": str(k)}
            for k, (line, colour) in enumerate(zip(lines, count_colours(len(lines)), strict=True), 1)
        ]
    )
    style.apply(figure, 620, style.height_for_legend(len(lines) + 2, 380), legend={"title": "logit of count"})
    marks = (
        ("values at counts 1, 2, ...", result.values, {"color": style.GREY, "width": 1}),
        ("boundaries", result.boundaries, {"color": style.VERMILION, "width": 1, "dash": "dash"}),
    )
    upright = {"type": "line", "yref": "y domain", "y0": 0, "y1": 1}
    figure.update_layout(  # all at once: a figure copies its shapes with each one added
        shapes=[
            {**upright, "x0": value, "x1": value, "line": look}
            for _, values, look in marks
            for value in values.tolist()
        ]
    )
    for name, _, look in marks:
        figure.add_scatter(x=[None], y=[None], mode="lines", line=look, name=name)
    top = [max(column) for column in zip(*lines, strict=True)]
    span = max(top) - min(top)
    figure.update_yaxes(title_text="logit", range=[min(top) - 0.5 * span, max(top) + 0.1 * span])
    figure.update_xaxes(title_text="hidden value")
    caption = (
        "Each logit is a straight line in the value of the one hidden unit that counts. Grey: its values at counts "
        "1, 2, ...; orange and dashed: the boundaries, where neighbouring lines cross."
    )
    return Figure(
        figure, name="step-function", title="From one number to a count", caption=caption, table=result.rows()
    )


def readout_figure(result: Readout) -> Figure:
    accuracy = (result.rank_accuracy * 100).tolist()
    figure = go.Figure(
        go.Scatter(x=result.ranks.tolist(), y=accuracy, mode="lines+markers", line_color=style.BLUE, marker_size=5)
    )
    style.apply(figure, 480, 320, showlegend=False)
    figure.update_xaxes(title_text="directions kept", rangemode="tozero")
    figure.update_yaxes(title_text="accuracy (%)", range=[0, 102])
    line = {"color": "#444444", "dash": "dash"}
    figure.add_vline(x=result.T, line=line, annotation_text="T")
    figure.add_hline(y=result.accuracy * 100, line={"color": style.GREY, "dash": "dot"})
    caption = (
        f"Accuracy when only so many directions of the pre-activations may carry the count; the dotted line is the "
        f"whole model. {result.directions} of them keep 95 % of it: a shared direction needs few, an inventory about "
        f"T = {result.T}. A displacement learned from one token moves the prediction of another by "
        f"{result.transfer:.2f} per unit (1: shared, 0: each its own)."
    )
    return Figure(
        figure, name="readout", title="How many directions carry the count", caption=caption, table=result.rows()
    )
