"""Confusion matrices of counting models and of language models, true count on x and answer on y."""

from __future__ import annotations

from itertools import cycle, product
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid, Panel, sheet
from counting_interp.interp.llm.result import AnswerCounts, Evaluation, QueryGroup
from counting_interp.probes.confusion import Confusion
from counting_interp.util.text import percent, sampled


def confusion_panel(panel: Panel, result: Confusion, scale: str) -> None:
    """Truth on x, answer on y, each column in percent of its true count."""
    totals = result.positions.sum(1, keepdim=True).clamp(min=1)
    shares = (100 * result.positions / totals).T  # [predicted, count]
    counts = list(range(1, result.positions.shape[0] + 1))
    first = 0 if int(result.positions[:, 0].sum()) else 1  # count 0 is drawn only if it was ever predicted
    text = [["" if value < 0.5 else style.whole_percent(value) for value in row] for row in shares[first:].tolist()]
    panel.add(
        go.Heatmap(
            z=shares[first:].tolist(),
            x=counts,
            y=list(range(first, counts[-1] + 1)),
            coloraxis=scale,
            xgap=1,
            ygap=1,
            text=text,
            texttemplate="%{text}" if len(counts) <= 16 else None,
            textfont_size=style.TINY,
            customdata=result.positions.T[first:].tolist(),
            hovertemplate="true count %{x}, answer %{y}: %{z:.1f} % (%{customdata:,} positions)<extra></extra>",
        )
    )
    look = {"showgrid": False, "constrain": "domain", **({"dtick": 1} if len(counts) <= 16 else {})}
    panel.x("true count", **look)
    panel.y("answer", scaleanchor=panel.references[0], **look)


PERCENT = {"zmin": 0, "zmax": 100, "colorscale": style.SHARES}


def confusion_figure(result: Confusion) -> Figure:
    grid = Grid([1], [320], width=450, margin={"r": 76})
    confusion_panel(grid[0], result, grid.scale(1, PERCENT, grid[0], title="% of true"))
    grid.titles(f"{sampled(result.accuracy)} of positions right, {result.sampler} sampler")
    caption = (
        f"Answers against true counts on {result.n_sequences:,} sampled sequences (sampler: {result.sampler}); each "
        f"column adds up to 100. Accuracy {sampled(result.accuracy)}; {percent(result.over)} counted too high, "
        f"{percent(result.under)} too low."
    )
    return Figure(
        grid.figure, name="confusion", title="Answers against true counts", caption=caption, table=result.rows()
    )


SAID = {"scored": "most probable number", "generated": "number written"}
PANEL = 138  # pixels, gaps included: four panels fill the width of a page
OTHER = "other"


def all_figures(result: Evaluation) -> list[Figure]:
    """For each measure: the confusion matrices of all lists together (as in the paper) and of each sampling, and the
    accuracies."""
    samplings = result.names("sampling")
    views = [None, *samplings] if len(samplings) > 1 else samplings
    sheets = [confusion_sheet(result, view, measure) for measure in result.measures for view in views]
    return [*sheets, *(accuracy_chart(result, measure) for measure in result.measures)]


def confusion_sheet(result: Evaluation, sampling: str | None = None, measure: str = "scored") -> Figure:
    """P(answer | truth): a row of panels per category, a column per prompt, truth on x and answer on y.

    Args:
        sampling: one of the samplings, or None for all lists together.
        measure: `scored` or `generated`.
    """
    categories, prompts = result.names("category"), result.names("prompt")
    bar = {"title": {"text": "P(answer | truth)", "side": "right"}, "x": 1.06, "thickness": 12}
    bar |= {"tickvals": [0, 0.2, 0.4, 0.6], "ticktext": ["0", "0.2", "0.4", "0.6+"]}
    figure, panels = sheet(
        categories,
        prompts,
        width=168 + len(prompts) * PANEL,
        height=84 + len(categories) * PANEL,
        margin={"l": 62, "r": 104, "t": 30, "b": 54},
        coloraxis={"cmin": 0, "cmax": 0.6, "colorscale": style.SHARES, "colorbar": bar},
    )
    table: list[dict[str, Any]] = []
    ends, line = [-0.5, result.length + 0.5], {"color": style.VERMILION, "width": 1}
    diagonal = go.Scatter(x=ends, y=ends, mode="lines", line=line, hoverinfo="skip", showlegend=False)
    even = list(range(0, result.length + 1, 2))
    names = [*map(str, even), OTHER]
    for (i, category), (j, prompt) in product(enumerate(categories), enumerate(prompts)):
        confusion, panel = result.confusion(QueryGroup(category, prompt, sampling), measure), panels[i][j]
        panel.add(_heatmap(confusion), diagonal)
        panel.x(tickvals=even, range=[-0.5, result.length + 0.5], showgrid=False)
        panel.y(tickvals=[*even, result.length + 1], ticktext=names, range=[-0.5, result.length + 1.5], showgrid=False)
        panel.x("true count" if i == len(categories) - 1 else "")
        panel.y("answer" if j == 0 else "")
        table += _rows(category, prompt, confusion)
    lists = f"{sampling} lists" if sampling else "all lists"
    return Figure(
        figure,
        name=f"confusion-{sampling or 'all'}-{measure}",
        title=f"How {result.model} counts: {SAID[measure]}, {lists}",
        caption=_caption(result, measure, lists),
        table=table,
        about=f"{sum(row['questions'] for row in table):,} questions; white columns: no question had that count",
    )


def accuracy_chart(result: Evaluation, measure: str = "scored") -> Figure:
    """Accuracies with 95 % intervals: prompts on x, a colour for each category, a panel for each sampling."""
    samplings, categories, prompts = (result.names(axis) for axis in ("sampling", "category", "prompt"))
    titles = [style.plain(f"{sampling} lists") for sampling in samplings]
    figure = make_subplots(1, len(samplings), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.04)
    table: list[dict[str, Any]] = []
    for column, sampling in enumerate(samplings, start=1):
        for category, colour in zip(categories, cycle(style.QUALITATIVE), strict=False):
            cells = [result.accuracy(QueryGroup(category, prompt, sampling), measure) for prompt in prompts]
            values = [100 * cell.value for cell in cells]
            figure.add_bar(
                x=[style.plain(prompt) for prompt in prompts],
                y=values,
                name=style.plain(category),
                legendgroup=category,
                showlegend=column == 1,
                marker_color=colour,
                hovertemplate=f"{style.plain(category)}, %{{x}}: %{{y:.1f}} % right<extra></extra>",
                error_y={
                    "array": [100 * cell.high - value for cell, value in zip(cells, values, strict=True)],
                    "arrayminus": [value - 100 * cell.low for cell, value in zip(cells, values, strict=True)],
                    "thickness": 1,
                    "width": 3,
                },
                row=1,
                col=column,
            )
            table += [
                {"sampling": sampling, "category": category, "prompt": prompt, **_percent(cell)}
                for prompt, cell in zip(prompts, cells, strict=True)
            ]
    figure.update_yaxes(range=[0, 100])
    figure.update_yaxes(title_text="accuracy (%)", col=1)
    figure.update_xaxes(tickangle=-30)
    style.apply(
        figure,
        style.FULL_WIDTH,
        380,
        barmode="group",
        margin={"l": 60, "r": 20, "t": 40, "b": 110},
    )
    caption = f"Share of correct answers ({SAID[measure]}); whiskers are 95 % intervals over lists."
    title = f"How often {result.model} counts correctly: {SAID[measure]}"
    return Figure(figure, name=f"accuracy-{measure}", title=title, caption=caption, table=table)


def _heatmap(confusion: AnswerCounts) -> go.Heatmap:
    return go.Heatmap(
        z=confusion.shares.T,
        customdata=confusion.counts.T,
        coloraxis="coloraxis",
        hovertemplate="true count %{x}, answer %{y}: %{z:.2f} of questions (%{customdata})<extra></extra>",
    )


def _rows(category: str, prompt: str, confusion: AnswerCounts) -> list[dict[str, Any]]:
    answers = [*map(str, range(len(confusion.counts))), OTHER]
    return [
        {"category": category, "prompt": prompt, "truth": truth, "answer": answer, "questions": questions}
        for truth, row in enumerate(confusion.counts.tolist())
        for answer, questions in zip(answers, row, strict=True)
    ]


def _caption(result: Evaluation, measure: str, lists: str) -> str:
    return (
        f"Answers of {result.model} (rows of a panel) by true count (columns), {lists}. The answer is the "
        f"{SAID[measure]}. Correct answers lie on the line; {OTHER}: no number, or one above {result.length}. White "
        "columns: no question had that count."
    )


def _percent(cell: Any) -> dict[str, Any]:
    return {"accuracy": 100 * cell.value, "low": 100 * cell.low, "high": 100 * cell.high, "questions": cell.questions}
