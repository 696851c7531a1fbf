"""The read-out of a hand-built model: logits against the one hidden value, and where the attainable values lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from interp.figures import style
from interp.figures.drawing import Drawing
from interp.figures.simplex import count_colours


@dataclass(frozen=True)
class StepFunction:
    """What is drawn: one straight line per count, the hidden value at each count, and the boundaries between them.

    Attributes:
        slopes, intercepts: of the logit of each count 1..L as a function of the hidden value.
        values: the hidden value at each count.
        boundaries: between neighbouring counts.
    """

    name: str
    slopes: Sequence[float]
    intercepts: Sequence[float]
    values: Sequence[float]
    boundaries: Sequence[float]


def step_function_figure(step: StepFunction) -> Drawing:
    low, high = min(step.values), max(step.values)
    margin = 0.08 * (high - low)
    grid = [low - margin + (high - low + 2 * margin) * i / 200 for i in range(201)]
    figure = go.Figure()
    rows = []
    for k, colour in enumerate(count_colours(len(step.values))):
        line = [step.slopes[k] * value + step.intercepts[k] for value in grid]
        figure.add_scatter(x=grid, y=line, mode="lines", line={"color": colour, "width": 2}, name=str(k + 1))
        rows.append(
            {
                "count": k + 1,
                "hidden_value": step.values[k],
                "slope": step.slopes[k],
                "intercept": step.intercepts[k],
                "boundary_above": step.boundaries[k] if k < len(step.boundaries) else None,
            }
        )
    style.apply(figure, 560, 380, legend={"title": "logit of count"})
    for value in step.values:
        figure.add_vline(x=value, line={"color": style.GREY, "width": 1})
    for value in step.boundaries:
        figure.add_vline(x=value, line={"color": style.RED, "width": 1, "dash": "dash"})
    top = [max(s * value + b for s, b in zip(step.slopes, step.intercepts, strict=True)) for value in grid]
    span = max(top) - min(top)
    figure.update_yaxes(title="logit", range=[min(top) - 0.5 * span, max(top) + 0.1 * span])
    figure.update_xaxes(title="hidden value")
    caption = (
        f"Read-out of {step.name}: each logit is a straight line in the one hidden value; grey lines are the values at "
        "counts 1, 2, ..., red dashed lines the boundaries, where neighbouring lines cross."
    )
    return Drawing(figure, name="step-function", caption=caption, table=rows)
