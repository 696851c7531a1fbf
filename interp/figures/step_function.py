"""The read-out of a hand-built model: logits against the one hidden value, and where the attainable values lie."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.simplex import count_colours
from counting_interp.probes.output_curves import StepFunction


def step_function_figure(result: StepFunction) -> Drawing:
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
    return Drawing(
        figure, name="step-function", title="From one number to a count", caption=caption, table=result.rows()
    )
