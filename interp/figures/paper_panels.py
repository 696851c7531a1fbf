"""The paper's figures with several panels, at print size, from bundled models and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import log10
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import plotly.graph_objects as go

from counting_interp.data import measured
from counting_interp.interp.figures import style
from counting_interp.interp.figures.attention import (
    answer_scale,
    attention_panel,
    attention_scale,
    set_share_panel,
    share_panel,
)
from counting_interp.interp.figures.confusion import PERCENT, confusion_panel
from counting_interp.interp.figures.feed_forward import (
    count_colours,
    count_scale,
    simplex_panel,
    sweep_panel,
    sweep_sheet,
)
from counting_interp.interp.figures.figure import LETTERS, Figure, Grid, sheet
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.figures.weights import groups_of, overlap_panel, pairs_of
from counting_interp.models import CountingTransformer
from counting_interp.probes.attention import Attention, attention
from counting_interp.probes.bos_share import bos_share
from counting_interp.probes.confusion import confusion
from counting_interp.probes.designs import letter, parse_sequence
from counting_interp.probes.isolation import bos_sweep
from counting_interp.probes.overlap import overlap
from counting_interp.probes.simplex import simplex
from counting_interp.util.tables import cell_value, read_csv
from counting_interp.util.text import sampled

BOS = "bos+sftm-d45-p2"
SOFTMAX = ("dot+sftm-d32-p32", "lin+sftm-d64-p64")
NARROW = ("dot+sftm-d3-p32", "dot+sftm-d8-p32", "dot+sftm-d23-p32")
ONE_B, TWO_B = "BBCBBBDEEE", "CBCBEBDDDE"  # the paper's two sequences
SHEET_TOKENS = (1, 2, 3, 4)  # B to E

Table = Sequence[dict[str, Any]]


def bos_introspection() -> Figure:
    """Fig. 3, with two more panels: attention to `$` at each count, and the answer when it is set."""
    model = CountingTransformer.load(BOS)
    grid = Grid([2, 3], [240, 178], gap=58, margin={"r": 62}, barmode="overlay")
    a, b, c, d, e = grid.panels
    pairs = pairs_of(overlap(model))
    overlap_panel(a, pairs)
    pattern = attention(model, parse_sequence(ONE_B, model.config))
    attention_panel(b, pattern, grid.scale(1, attention_scale(pattern), b, title="%"))
    sweep = bos_sweep(model)
    shares = shares_of_bos(pattern)
    marks = {"count " * (number == min(shares)) + str(number): share for number, share in shares.items()}
    pair = sweep_panel(c, sweep, marks)
    c.x("weight α of $", range=[0.2, 0.8])
    share = bos_share(model)
    share_panel(d, share)
    set_share_panel(e, share, grid.scale(2, answer_scale(model.config.L), e, title="answer"))
    e.x("set to that of count")
    for panel in (d, e):
        panel.x(tickfont_size=style.TINY, tickangle=0)
    grid.titles(
        groups_of(pairs), f"attention on {ONE_B}", "MLP alone", "attention to $ by count", "answer when we set it",
        letters=True,
    )  # fmt: skip
    values = ", ".join(f"{100 * share:.0f} % at count {number}" for number, share in shares.items())
    caption = (
        f"(a) Inner products of embeddings; dashed: medians. (b) Attention; equal tokens are framed. (c) The answer of "
        f"the feed-forward layer to α e_$ + (1 - α) e_i + e_j, {pair} in blue; dashed: the shares of $ in b "
        f"({values}), which fall where the answer is that count. (d) Attention to $ for all {model.config.T} tokens. "
        "(e) The answer when that share is set to the mean of another count."
    )
    tables = (pairs, pattern.rows(), sweep.rows(), share.rows(), share.causal_rows())
    return _figure(grid.figure, caption, dict(zip("abcde", tables, strict=True)), f"{BOS}: {_sizes(model.config)}")


def shares_of_bos(pattern: Attention) -> dict[int, float]:
    """The mean attention to `$` in a pattern, by the count of the querying token, highest count first."""
    labels = pattern.labels[1:]
    groups: dict[int, list[float]] = {}
    for position, name in enumerate(labels, 1):
        groups.setdefault(labels.count(name), []).append(float(pattern.pattern[position, 0]))
    return {count: sum(values) / len(values) for count, values in sorted(groups.items(), reverse=True)}


def softmax_introspection() -> Figure:
    """Fig. 4: for each model, two attention patterns and a row of three maps of the feed-forward layer."""
    grid = Grid([4, 3, 3], [136, 168, 168], gap=34, below=64, margin={"l": 48, "r": 60})
    models = [CountingTransformer.load(name) for name in SOFTMAX]
    patterns = [attention(model, parse_sequence(text, model.config)) for model in models for text in (ONE_B, TWO_B)]
    attend = grid.scale(1, attention_scale(*patterns), grid[3], title="%")
    counts = grid.scale(2, count_scale(10), grid[6], title="count", tickvals=list(range(1, 11)))
    titles = [f"{model.config.name}, {text}" for model in models for text in (ONE_B, TWO_B)]
    tables: dict[str, Table] = {}
    for number, (panel, pattern) in enumerate(zip(grid.panels, patterns, strict=False)):
        attention_panel(panel, pattern, attend)
        panel.x(tickfont_size=style.TINY)
        panel.y("query" if number == 0 else "", tickfont_size=style.TINY)
        tables["abcd"[number]] = pattern.rows()
    for row, model in enumerate(models):
        mixtures = simplex(model)
        for residual, panel in enumerate(grid.panels[4 + 3 * row : 7 + 3 * row]):
            simplex_panel(panel, mixtures, residual, counts)
            token = letter(mixtures.tokens[residual], model.config.T)
            titles.append(f"{model.config.name}, residual e<sub>{token}</sub>")
            tables[LETTERS[len(titles) - 1]] = [line for line in mixtures.rows() if line["residual"] == token]
    grid.titles(*titles, letters=True)
    for note in grid.figure.select_annotations(selector=lambda note: "BB" in note.text or "CBC" in note.text):
        note.font.size = style.TINY  # four panels in a row
    caption = (
        "For each model: attention on two sequences on one scale (equal tokens are framed), and the answer of the "
        "feed-forward layer alone to a mixture of B, C and D with weights that add up to one, plus the residual token. "
        "Straight borders at constant weights of the residual token: the layer reads only that weight."
    )
    about = "; ".join(f"{name}: {_sizes(model.config)}" for name, model in zip(SOFTMAX, models, strict=True))
    return _figure(grid.figure, caption, tables, about)


def decreasing_d() -> Figure:
    """Fig. 5: confusion matrices and overlaps for increasing d."""
    grid = Grid([3, 3], [180, 150], gap=50, margin={"r": 66}, barmode="overlay")
    scale = grid.scale(1, PERCENT, grid[2], title="%")
    tables: dict[str, Table] = {}
    accuracies = []
    for number, name in enumerate(NARROW):
        model = CountingTransformer.load(name)
        answers = confusion(model, sampler="published")  # as in the paper
        confusion_panel(grid[number], answers, scale)
        pairs = pairs_of(overlap(model))
        overlap_panel(grid[3 + number], pairs)
        grid[number].title(f"<b>{'abc'[number]}</b>  d = {model.config.d}, accuracy {sampled(answers.accuracy)}")
        grid[3 + number].title(f"<b>{'def'[number]}</b>  d = {model.config.d}")
        tables |= {"abc"[number]: answers.rows(), "def"[number]: pairs}
        accuracies.append(f"{sampled(answers.accuracy)} at d = {model.config.d}")
    for panel in grid.panels[4:]:
        panel.y("")
    where: dict[str, Any] = {"xanchor": "left", "yanchor": "top", "align": "left", "font_size": style.TINY}
    grid[3].note(groups_of(pairs).replace(", ", "<br>"), 0.02, 0.98, **where)
    caption = (
        f"Top: answers against true counts ({answers.sampler} sampler), each column in percent. Bottom: inner "
        f"products of embeddings in bins that all groups share; dashed: medians. Accuracy: {', '.join(accuracies)}."
    )
    return _figure(grid.figure, caption, tables, "dot+sftm, T = 32, L = 10, p = 32; one model for each d")


def bos_mixing() -> Figure:
    """Fig. 13: the sheet of 4 x 4 pairs, with the weights of `$` that occur in Fig. 3b."""
    model = CountingTransformer.load(BOS)
    shares = shares_of_bos(attention(model, parse_sequence(ONE_B, model.config)))
    sweep = bos_sweep(model, tokens=SHEET_TOKENS)
    figure = sweep_sheet(sweep, list(shares.values()))
    spread = sweep.summary["boundary_spread"]
    values = ", ".join(f"{100 * share:.0f} % (count {number})" for number, share in shares.items())
    figure.caption += f" Dashed: the shares of $ on {ONE_B}, {values}."
    if spread is not None:
        figure.caption += f" A boundary moves by at most {spread:.3f} between the panels."
    counts = ", ".join(map(str, sorted(shares)))
    figure.about = f"{BOS}: {_sizes(model.config)}; dashed: the shares of $ at counts {counts} of Fig. 3b"
    return figure


SIZES = (2, 4, 8, 16, 32, 64, 128)  # of the published sheet of output curves, on both axes
MADE_BY = "a table of `python -m scripts.figure_tables`"


Kind = TypeVar("Kind", "SpectrumRow", "CurveRow")


@dataclass(frozen=True)
class SpectrumRow:
    """Singular values of the first feed-forward matrix of a run, divided by the largest, in descending order."""

    model: str
    d: int
    p: int
    run: int
    accuracy: float
    sigma: tuple[float, ...]


@dataclass(frozen=True)
class CurveRow:
    """Logits minus the best one at this number of occurrences, by count: mean, minimum and maximum over fillers."""

    d: int
    p: int
    accuracy: float
    occurrences: int
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def spectra(path: Path | None = None) -> list[SpectrumRow]:
    return _read(SpectrumRow, path or measured("spectra"))


def curves(path: Path | None = None) -> list[CurveRow]:
    return _read(CurveRow, path or measured("output-curves"))


def _read(kind: type[Kind], path: Path) -> list[Kind]:
    """The rows of a table whose columns are the fields of `kind`. Numbers in one cell are separated by spaces."""
    kinds = {field.name: str(field.type) for field in fields(kind)}

    def value(name: str, text: str) -> Any:
        several = kinds[name].startswith("tuple")
        return tuple(map(float, text.split())) if several else cell_value(name, kinds[name], text)

    return read_csv(path, kinds, lambda row: kind(**{name: value(name, row[name]) for name in kinds}), MADE_BY)


def output_curve_sheet() -> Figure:
    """Fig. 9: a small panel for each d and p, one model each."""
    rows = curves()
    accuracies = {(row.d, row.p): row.accuracy for row in rows}
    figure, panels = sheet(
        [f"d = {d}" for d in reversed(SIZES)],
        [f"p = {p}" for p in SIZES],
        width=style.FULL_WIDTH,
        height=740,
        margin={"l": 52, "r": 34, "t": 26, "b": 78},
        legend={**style.BELOW, "title": {"text": "logit of count"}, "entrywidth": 16},
    )
    colours = count_colours(len(rows[0].mean))
    for (i, d), (j, p) in product(enumerate(reversed(SIZES)), enumerate(SIZES)):
        panel, of_size = panels[i][j], [row for row in rows if (row.d, row.p) == (d, p)]
        panel.add(*_curves(of_size, colours, legend=(d, p) == next(iter(accuracies))))
        panel.x("copies" if i == len(SIZES) - 1 else "", range=[0.7, len(colours) + 0.3], tickvals=[1, 5, 10])
        panel.y("logit − best" if j == 0 else "", range=[-21, 1.5], tickvals=[-20, -10, 0])
        words = sampled(accuracies[d, p] / 100) if of_size else "not trained"
        panel.note(words, 0.5, 0.03, yanchor="bottom", font_size=style.TINY, bgcolor="rgba(255,255,255,0.75)")
    caption = (
        f"Logits at the first position, minus the best of them, against the number of copies of one token; bands: over "
        f"all fillers. The curve at zero is the answer. One run of lin+sftm for each of {len(accuracies)} of "
        f"{len(SIZES) ** 2} sizes, with its accuracy in each panel. Axes end 20 below the best."
    )
    table = [
        {"d": row.d, "p": row.p, "accuracy": row.accuracy, "occurrences": row.occurrences, "count": k + 1}
        | {"mean": row.mean[k], "low": row.low[k], "high": row.high[k]}
        for row in rows
        for k in range(len(row.mean))
    ]
    about = f"lin+sftm, T = 32, L = 10; {len(accuracies)} of {len(SIZES) ** 2} sizes, one run each"
    return Figure(figure, name="output-curves", caption=caption, table=table, about=about)


def _curves(rows: Sequence[Any], colours: Sequence[str], legend: bool) -> Iterator[go.Scatter]:
    x = [row.occurrences for row in rows]
    for k, colour in enumerate(colours):
        low, high = [row.low[k] for row in rows], [row.high[k] for row in rows]
        band = {"fill": "toself", "fillcolor": colour, "opacity": 0.07, "line": {"width": 0}, "mode": "lines"}
        yield go.Scatter(x=[*x, *x[::-1]], y=[*high, *low[::-1]], hoverinfo="skip", showlegend=False, **band)
        hover = f"count {k + 1} at %{{x}} copies: %{{y:.1f}} behind the best<extra></extra>"
        look = {"mode": "lines", "line": {"color": colour, "width": 1.3}, "name": str(k + 1), "hovertemplate": hover}
        yield go.Scatter(x=x, y=[row.mean[k] for row in rows], legendgroup=str(k), showlegend=legend, **look)


def singular_values() -> Figure:
    """Fig. 14: singular values of W1, divided by the largest, of every run with p, d >= T that solves the task."""
    rows = spectra()
    grid = Grid([3, 3], [190, 190], gap=44, below=74)
    hover = "%{fullData.name}, no. %{x}: %{y:.3f} of the largest<extra></extra>"
    thin = {"mode": "lines", "line": {"color": style.BLUE, "width": 0.9}, "opacity": 0.55, "hovertemplate": hover}
    for panel, model in zip(grid.panels, (model for row in ROWS for model in row), strict=True):
        of_model = [row for row in rows if row.model == model]
        for row in of_model:
            name = f"d = {row.d}, p = {row.p}, run {row.run}"
            panel.add(
                go.Scatter(x=list(range(1, len(row.sigma) + 1)), y=row.sigma, name=name, showlegend=False, **thin)
            )
        panel.title(f"<b>{model}</b>, {len(of_model)} run{'s' * (len(of_model) != 1)}")
        panel.x("index", range=[0, 130], tickvals=[1, 32, 64, 128])
        panel.y(type="log", range=[-3, 0.08], tickvals=[0.001, 0.01, 0.1, 1], ticktext=["0.001", "0.01", "0.1", "1"])
        panel.upright(32.5, dash="dash")
        panel.note("T", 32.5, log10(0.0012), data="xy", xanchor="left", yanchor="bottom", xshift=3)
        drops = [row.sigma[31] / row.sigma[32] for row in of_model if len(row.sigma) > 32 and row.sigma[32] > 0]
        if drops:
            words = f"median drop at T:<br>{median(drops):.2f} in {len(drops)} runs"
            panel.note(words, 0.97, 0.96, xanchor="right", yanchor="top", align="right")
    for panel in (grid[0], grid[3]):
        panel.y("singular value / largest")
    caption = (
        f"Singular values of W1 of {len(rows)} runs with p, d >= 32 that end at 99 % or above, each divided by the "
        "largest. Text: the median ratio of the 32nd to the 33rd, over the runs that have a 33rd."
    )
    table = [
        {"model": row.model, "d": row.d, "p": row.p, "run": row.run, "index": i, "sigma_over_largest": value}
        for row in rows
        for i, value in enumerate(row.sigma, 1)
    ]
    about = f"T = 32, L = 10; {len(rows)} runs with p, d >= 32 and accuracy >= 99 %"
    return Figure(grid.figure, name="singular-values", caption=caption, table=table, about=about)


def _sizes(config: Any) -> str:
    return f"T = {config.T}, L = {config.L}, d = {config.d}, p = {config.p}"


def _figure(figure: go.Figure, caption: str, tables: dict[str, Table], about: str) -> Figure:
    """A figure whose table has the rows of all panels, each with the letter of its panel."""
    rows = [{"panel": panel, **row} for panel, table in tables.items() for row in table]
    columns = dict.fromkeys(column for row in rows for column in row)
    filled = [{column: row.get(column) for column in columns} for row in rows]
    return Figure(figure, name="composite", caption=caption, table=filled, about=about)
