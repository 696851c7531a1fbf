"""The cue-conflict map: attention compared for t, the feed-forward layer was told s. Whose count comes out?"""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.cue_conflict import CueConflict


def cue_conflict_figure(result: CueConflict) -> Drawing:
    """The count of t on x, of s on y: vertical stripes follow attention (RC), horizontal ones the swap (IC)."""
    counts = list(range(1, result.L))
    table = result.map.T  # rows: count of s
    heat = go.Heatmap(
        z=[[None if value != value else value for value in row] for row in table.tolist()],
        x=counts,
        y=counts,
        zmin=1,
        zmax=result.L,
        colorscale=style.SEQUENTIAL,
        xgap=1,
        ygap=1,
        text=[["" if value != value else f"{value:.1f}" for value in row] for row in table.tolist()],
        texttemplate="%{text}" if result.L <= 16 else None,
        textfont_size=style.SMALL - 1,
        colorbar={"title": "predicted", "thickness": 12},
    )
    figure = style.apply(go.Figure(heat), 440, 400, margin={"l": 60, "r": 20, "t": 20, "b": 55})
    figure.update_xaxes(title_text="count of t, which attention compared", dtick=1, showgrid=False, constrain="domain")
    figure.update_yaxes(
        title="count of s, which the self path names", dtick=1, showgrid=False, scaleanchor="x", constrain="domain"
    )
    with_t, with_s = result.follows
    caption = (
        f"Mean predicted count after the self path was swapped from t to s, over {len(result.pairs)} pairs. It changes "
        f"by {with_t:.2f} per occurrence of t and by {with_s:.2f} per occurrence of s: relation-based counting gives "
        "1 and 0 (vertical stripes), inventory-based counting 0 and 1 (horizontal stripes)."
    )
    return Drawing(
        figure,
        name=f"cue-conflict-{result.layer + 1}",
        title="Whose count comes out?",
        caption=caption,
        table=result.rows(),
    )
