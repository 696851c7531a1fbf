"""Three-token mixtures: the predicted count on the triangle, one panel for each token as residual."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.designs import letter
from counting_interp.probes.simplex import Simplex


def count_colours(L: int) -> list[str]:
    """One colour per count 1..L, evenly along the sequential scale."""
    return sample_colorscale(style.SEQUENTIAL, [k / max(1, L - 1) for k in range(L)])


def simplex_figure(result: Simplex) -> Drawing:
    names = [letter(token, result.T) for token in result.tokens]
    L = result.boundaries.shape[-1] + 1
    colours = count_colours(L)
    stepped = [[edge / L, colours[k]] for k in range(L) for edge in (k, k + 1)]
    figure = make_subplots(
        1, 3, shared_yaxes=True, horizontal_spacing=0.04, subplot_titles=[f"R = e<sub>{name}</sub>" for name in names]
    )
    points = result.weights
    side = max(3.0, 260 / (1 / float(points[points > 0].min())))
    for column in range(3):
        marker = {
            "color": result.predicted[column].tolist(),
            "colorscale": stepped,
            "cmin": 0.5,
            "cmax": L + 0.5,
            "size": side,
            "symbol": "square",
            "showscale": column == 2,
            "colorbar": {"title": "count", "thickness": 12, "tickvals": list(range(1, L + 1))},
        }
        figure.add_trace(
            go.Scatter(
                x=points[:, 0].tolist(), y=points[:, 1].tolist(), mode="markers", marker=marker, showlegend=False
            ),
            row=1,
            col=column + 1,
        )
    style.apply(figure, style.FULL_WIDTH, 300)
    figure.update_xaxes(title_text=f"α<sub>{names[0]}</sub>", range=[-0.02, 1.02])
    figure.update_yaxes(range=[-0.02, 1.02])
    figure.update_yaxes(title_text=f"α<sub>{names[1]}</sub>", row=1, col=1)
    own = result.summary["variance_by_own_weight"]
    share = "nothing varies" if own is None else f"{own:.0%} of the variance of the prediction goes with it"
    caption = (
        f"The feed-forward layer alone on α_{names[0]} e_{names[0]} + α_{names[1]} e_{names[1]} + α_{names[2]} "
        f"e_{names[2]} + R, weights adding up to one. An inventory reads the weight of the residual token and nothing "
        f"else: {share}."
    )
    return Drawing(figure, name="simplex", title="Mixtures of three tokens", caption=caption, table=result.rows())
