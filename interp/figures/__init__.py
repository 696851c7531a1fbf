"""Drawing what probes and sweeps computed. A figure function takes a result and returns a `Drawing`: a plotly figure
that also knows its name, its caption and its numbers. It computes nothing and writes nothing; `export.write` writes.

    def spectrum(result: SpectrumResult) -> Drawing:
        figure = go.Figure(go.Scatter(x=result.index, y=result.values, line_color=style.VARIANT_COLOURS["dot"]))
        figure.update_xaxes(title_text="index")
        style.apply(figure, style.HALF_WIDTH, 260)
        table = [{"index": i, "sigma": s} for i, s in zip(result.index, result.values)]
        return Drawing(figure, name="spectrum", caption="Singular values of W1.", table=table)

    write([spectrum(result)], "out", ("html", "png"))
"""

from __future__ import annotations
