"""Who looks at whom: the mixing pattern of one sequence, query in rows, key in columns, equal tokens framed."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.attention import Attention

MOST_FRAMED = 64  # places; of more, a frame is smaller than its line


def attention_figure(result: Attention) -> Drawing:
    """Percent with a fixed scale from 0 to 100 under a softmax; raw values around zero without one."""
    n, softmax = len(result.labels), result.softmax
    places = [str(i) for i in range(n)]
    values = result.pattern * (100 if softmax else 1)
    largest = float(values.abs().max()) or 1.0
    scale = {"zmin": 0, "zmax": 100, "colorscale": "Blues"} if softmax else style.signed(largest)
    heat = go.Heatmap(
        z=values.tolist(),
        x=places,
        y=places,
        text=[[f"{value:.0f}" if softmax else f"{value:.2g}" for value in row] for row in values.tolist()]
        if n <= 16
        else None,
        texttemplate="%{text}" if n <= 16 else None,
        textfont_size=style.SMALL - 2,
        xgap=1,
        ygap=1,
        colorbar={"title": "%" if softmax else "A", "thickness": 12, "len": 0.9},
        **scale,
    )
    figure = style.apply(go.Figure(heat), 460, 430, margin={"l": 60, "r": 20, "t": 20, "b": 60})
    ticks = {"tickmode": "array", "tickvals": places, "ticktext": list(result.labels), "showgrid": False}
    figure.update_xaxes(title_text="key", constrain="domain", **ticks)
    figure.update_yaxes(title_text="query", autorange="reversed", scaleanchor="x", constrain="domain", **ticks)
    frame = {"type": "rect", "line": {"color": style.VERMILION, "width": 1.5}}
    framed = n <= MOST_FRAMED
    if framed:  # all at once: a figure copies its shapes with each one added
        equal = result.equal.nonzero().tolist()
        places_of = [{"x0": k - 0.46, "x1": k + 0.46, "y0": q - 0.46, "y1": q + 0.46} for q, k in equal]
        figure.update_layout(shapes=[{**frame, **place} for place in places_of])
    seen = (
        "The mixing matrix is constant: it cannot tell equal from different tokens."
        if result.mixer is not None
        else f"A pair of equal tokens scores {'higher' if result.auc > 0.5 else 'lower'} than a pair of different ones "
        f"in {max(result.auc, 1 - result.auc):.1%} of comparisons (50 %: no difference)."
        if result.auc is not None
        else ""
    )
    sequence = "".join(result.labels[:MOST_FRAMED]) + ("" if framed else "\N{HORIZONTAL ELLIPSIS}")
    frames = "; orange frames mark equal tokens" if framed else ""
    caption = f"Mixing pattern for {sequence}{frames}. {seen}".strip()
    return Drawing(
        figure,
        name=f"attention-{result.layer + 1}",
        title="Who looks at whom",
        caption=caption,
        table=result.rows(),
    )
