"""The feed-forward layer alone: along a line of mixtures, on a sheet of pairs, and on the triangle of three tokens."""

from __future__ import annotations

import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.probes.isolation import Sweep
from counting_interp.probes.sequences import letter
from counting_interp.probes.simplex import Simplex

LINES = {
    "bos-sweep": ("α e<sub>$</sub> + (1−α) e<sub>i</sub> + e<sub>j</sub>", "weight α of $"),
    "count-sweep": ("between the mixed tokens of count 1 and count L", "α from count 1 to count L"),
}
TITLES = {
    "bos-sweep": "The feed-forward layer alone, from no $ to $ only",
    "count-sweep": "The feed-forward layer alone, from count 1 to L",
}
SHEET = 4  # tokens on each side of a sheet


def sweep_figure(result: Sweep) -> Figure:
    """The first pair of different tokens in colour, all other pairs thin behind it."""
    mixture, axis = LINES[result.probe]
    L = result.boundaries.shape[-1] + 1
    figure = go.Figure()
    pairs = result.defined.nonzero().tolist()
    first = next((pair for pair in pairs if result.mixed[pair[0]] != result.residual[pair[1]]), pairs[0])
    alphas = result.alphas.tolist()
    for i, j in pairs:
        thin = {"color": style.GREY, "width": 0.6, "shape": "hv"}
        counts = result.predicted[i, j].tolist()
        figure.add_scatter(x=alphas, y=counts, mode="lines", line=thin, opacity=0.35, showlegend=False)
    names = [letter(int(tokens[k]), result.T) for tokens, k in zip((result.mixed, result.residual), first, strict=True)]
    thick = {"color": style.BLUE, "width": 3, "shape": "hv"}
    counts = result.predicted[first[0], first[1]].tolist()
    figure.add_scatter(x=alphas, y=counts, mode="lines", line=thick, name=f"i = {names[0]}, j = {names[1]}")
    style.apply(figure, 560, 340, showlegend=True)
    figure.update_xaxes(title_text=axis, range=[0, 1])
    figure.update_yaxes(title_text="predicted count", range=[0.5, L + 0.5], dtick=1)
    figure.update_layout(title={"text": mixture, "font_size": style.FONT_SIZE})
    summary = result.summary
    spread = summary["boundary_spread_median"]
    agree = "" if spread is None else f" A boundary lies within {spread:.3f} for all of them (median)."
    caption = (
        f"The feed-forward layer alone, {len(pairs)} pairs of tokens (grey), one in blue: predictions are monotone in "
        f"{summary['monotone_share']:.0%} of pairs.{agree} One shared direction gives the same steps for every pair."
    )
    return Figure(figure, name=result.probe, title=TITLES[result.probe], caption=caption, table=result.rows())


def sweep_sheet(result: Sweep) -> Figure:
    """The first four tokens as small panels: mixed token in rows, residual in columns (the paper's appendix figure)."""
    n, m = (min(size, SHEET) for size in result.defined.shape)
    L = result.boundaries.shape[-1] + 1
    rows = [letter(int(token), result.T) for token in result.mixed[:n]]
    columns = [letter(int(token), result.T) for token in result.residual[:m]]
    figure = make_subplots(
        n,
        m,
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.02,
        vertical_spacing=0.02,
        column_titles=columns,
    )
    shown = result.defined[:n, :m]
    for i, j in shown.nonzero().tolist():
        line = {"color": style.BLUE, "width": 2, "shape": "hv"}
        counts = result.predicted[i, j].tolist()
        figure.add_scatter(
            x=result.alphas.tolist(), y=counts, mode="lines", line=line, showlegend=False, row=i + 1, col=j + 1
        )
    style.apply(figure, style.FULL_WIDTH, 600)
    figure.update_xaxes(range=[0, 1], tickvals=[0, 0.5, 1])
    figure.update_yaxes(range=[0.5, L + 0.5])
    for i, name in enumerate(rows):
        figure.update_yaxes(title_text=f"i = {name}", row=i + 1, col=1)
    for j in range(m):
        figure.update_xaxes(title_text="α", row=n, col=j + 1)
    caption = (
        f"Predicted count against α for each mixed token i (rows) and residual token j (columns): monotone in "
        f"{float(result.monotone[:n, :m][shown].double().mean()):.0%} of the panels."
    )
    names = {*rows, *columns}
    table = [row for row in result.rows() if row["mixed_token"] in names and row["residual_token"] in names]
    return Figure(
        figure,
        name=f"{result.probe}-sheet",
        title=f"{TITLES[result.probe]}, pair by pair",
        caption=caption,
        table=table,
    )


def count_colours(L: int) -> list[str]:
    """One colour per count 1..L, evenly along the sequential scale."""
    return sample_colorscale(style.SEQUENTIAL, [k / max(1, L - 1) for k in range(L)])


def simplex_figure(result: Simplex) -> Figure:
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
    return Figure(figure, name="simplex", title="Mixtures of three tokens", caption=caption, table=result.rows())
