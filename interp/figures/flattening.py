"""What is left of the count when attention cannot find equal tokens."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.cue_conflict import Flattening


def flattening_figure(result: Flattening) -> Drawing:
    """The predicted count against the true one, before and after. A flat line: attention's comparison carried it."""
    counts = result.cells[:, 0].unique()
    figure = go.Figure()
    for name, predicted, colour, dash in (
        ("as it is", result.unchanged, style.GREY, "dot"),
        ("without attention's comparison", result.predicted, style.BLUE, "solid"),
    ):
        means = [float(predicted[:, result.cells[:, 0] == k].float().mean()) for k in counts]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=counts.tolist(), y=means, mode="lines+markers", line=line, name=name, marker_size=6)
    style.apply(figure, 480, 340)
    figure.update_xaxes(title_text="count of t", dtick=1 if result.L <= 16 else None)
    figure.update_yaxes(title_text="mean predicted count", range=[0.5, result.L + 0.5])
    kept = "" if result.kept is None else f" {max(0.0, result.kept):.0%} of the slope is left."
    caption = (
        "The place asks the others as a token that does not occur, so that attention finds nothing equal; residual and "
        f"values stay, over {len(result.pairs)} pairs of tokens.{kept} Where attention's comparison carries the count, "
        "nothing is left; where the feed-forward layer compares by itself, nearly all of it."
    )
    return Drawing(
        figure,
        name=f"flattening-{'all' if result.layer is None else result.layer + 1}",
        title="What is left without attention's comparison?",
        caption=caption,
        table=result.rows(),
    )
