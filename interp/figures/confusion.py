"""The confusion matrix: truth on x, prediction on y, share of each true count in percent."""

from __future__ import annotations

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.probes.confusion import Confusion


def confusion_figure(result: Confusion) -> Drawing:
    totals = result.positions.sum(1, keepdim=True).clamp(min=1)
    shares = (100 * result.positions / totals).T  # [predicted, count]
    counts = list(range(1, result.positions.shape[0] + 1))
    first = 0 if int(result.positions[:, 0].sum()) else 1  # the class for count 0 only where it was ever predicted
    text = [["" if value < 0.5 else f"{value:.0f}" for value in row] for row in shares[first:].tolist()]
    heat = go.Heatmap(
        z=shares[first:].tolist(),
        x=counts,
        y=list(range(first, counts[-1] + 1)),
        zmin=0,
        zmax=100,
        colorscale="Blues",
        xgap=1,
        ygap=1,
        text=text,
        texttemplate="%{text}" if len(counts) <= 16 else None,
        textfont_size=style.SMALL - 1,
        colorbar={"title": "% of true", "thickness": 12},
    )
    figure = style.apply(go.Figure(heat), 440, 400, margin={"l": 60, "r": 20, "t": 20, "b": 60})
    figure.update_xaxes(title_text="true count", dtick=1, showgrid=False, constrain="domain")
    figure.update_yaxes(title_text="predicted count", dtick=1, showgrid=False, scaleanchor="x", constrain="domain")
    caption = (
        f"Predicted against true counts on {result.n_sequences:,} sampled sequences (sampler: {result.sampler}); each "
        f"column adds up to 100. Accuracy {result.accuracy:.2%}; {result.over:.2%} counted too high, "
        f"{result.under:.2%} too low."
    )
    return Drawing(
        figure, name="confusion", title="Predicted against true counts", caption=caption, table=result.rows()
    )
