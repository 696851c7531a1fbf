"""Introspection figures: every one that makes sense is drawn, with axes as agreed and its numbers beside it."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
import torch

from counting_interp.interp import figures as introspection
from counting_interp.interp.figures import Settings, draw, figures_of, style
from counting_interp.interp.figures.attention import attention_figure
from counting_interp.interp.figures.verdict import PlanePoint, plane_figure, region
from counting_interp.interp.verdict import classify
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import construct
from counting_interp.probes import catalogue
from counting_interp.probes.attention import attention
from counting_interp.probes.cue_conflict import cue_conflict
from counting_interp.probes.designs import letters, parse_sequence
from counting_interp.probes.overlap import overlap
from counting_interp.probes.readout import readout
from counting_interp.probes.transplants import transplants


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_every_variant_has_its_figures(variant: str, n_layers: int) -> None:
    model = CountingTransformer(CountingConfig.parse(variant, T=8, L=5, d=6, p=7, n_layers=n_layers))
    drawings = {drawing.name: drawing for drawing in figures_of(model)}
    assert {"overlap", "confusion", "output-curves", "spectrum-1", "attention-1", "cue-conflict-1"} <= set(drawings)
    assert ("attention-2" in drawings) == (n_layers == 2)
    assert ("bos-share-1" in drawings) == variant.startswith("bos")
    assert len({drawing.title for drawing in drawings.values()}) == len(drawings)  # of two blocks, each says which
    for drawing in drawings.values():
        assert ("2 layers" in drawing.about) == (n_layers == 2)
        assert len(drawing.caption) > 40
        assert len(list(csv.DictReader(io.StringIO(drawing.to_csv())))) == len(drawing.table) > 0


def test_attention_has_query_in_rows_and_frames_on_equal_tokens() -> None:
    model = construct("rc-bos+sftm", T=8, L=6)
    (drawing,) = figures_of(model, ["attention"], Settings(sequence=parse_sequence("AABCCC", model.config)))
    heat = drawing.data[0]
    assert list(drawing.layout.xaxis.ticktext) == ["$", *"AABCCC"]
    assert drawing.layout.yaxis.autorange == "reversed"
    scale = drawing.layout.coloraxis
    assert (scale.cmin, scale.cmax % 10) == (0, 0)  # percent, up to the ten above the largest
    assert 0 <= scale.cmax - max(max(row) for row in heat.z) < 10
    assert sum(heat.z[1]) == pytest.approx(100, abs=1e-3)
    assert heat.z[1][2] > heat.z[1][3]  # A looks at the other A more than at B
    assert len(drawing.layout.shapes) == 1 + 4 + 1 + 9


def test_what_a_causal_model_cannot_see_is_not_framed() -> None:
    result = attention(CountingTransformer(CountingConfig.parse("dot+sftm", T=8, L=6, d=8, p=4)))
    pairs = attention_figure(result).layout.shapes
    causal = attention_figure(replace(result, heads=result.heads.tril(), pattern=result.pattern.tril())).layout.shapes
    assert (len(pairs), len(causal)) == (9 + 4 + 1, 6 + 3 + 1)  # BBBCCD


def test_all_heads_are_drawn_small_and_the_chosen_one_is_named() -> None:
    model = CountingTransformer(CountingConfig.parse("dot+sftm+values+4heads", T=8, L=6, d=8, p=4, n_layers=2))
    result = attention(model, layer=1)
    for drawing in figures_of(model, ["attention"]):
        chosen = int(drawing.title.split("head ")[1][0])
        titles = [note.text for note in drawing.layout.annotations]
        assert titles[:4] == [f"<b>head {k}</b>" if k == chosen else f"head {k}" for k in range(4)]
    assert drawing.title == f"Who looks at whom (block 2), head {result.head} (of 0 to 3)"
    small = torch.tensor([trace.z for trace in drawing.data[1:]]) / 100
    assert (small - result.heads).abs().max() < 1e-6


def test_the_read_out_stands_below_the_spectrum_of_the_block_it_reads() -> None:
    model = construct("ic-lin", T=8, L=6)
    (drawing,) = figures_of(model, ["spectrum", "readout"])
    assert drawing.name == "spectrum-1"
    kept = [row["accuracy"] for row in drawing.table if row["spectrum"] == "kept"]
    assert kept == pytest.approx(readout(model).rank_accuracy.tolist())
    assert drawing.layout.xaxis.range == drawing.layout.xaxis2.range
    assert [next(figures_of(model, [name])).name for name in ("spectrum", "readout")] == ["spectrum-1", "readout"]


def test_the_gram_matrix_has_every_pair_at_its_names() -> None:
    model = CountingTransformer.load("bos-d45-p4")
    result, (drawing,) = overlap(model), figures_of(model, ["overlap"])
    matrix = next(trace for trace in drawing.data if trace.type == "heatmap")
    assert set(matrix.x) == set(matrix.y) == {*letters(torch.arange(33), 32)}
    row, column = list(matrix.y).index("C"), list(matrix.x).index("$")
    assert matrix.z[row][column] == pytest.approx(float(result.cosine[2, 32]))
    points = {point[0] for trace in drawing.data if trace.type == "scatter" for point in trace.customdata}
    assert len(points) == 32 * 31 // 2 + 32 + 32  # every pair has its name


def test_signed_patterns_are_centred_at_zero() -> None:
    (drawing,) = figures_of(CountingTransformer.load("lin-d64-p64"), ["attention"])
    assert drawing.layout.coloraxis.cmin == -drawing.layout.coloraxis.cmax


@pytest.mark.parametrize(("name", "axis"), [("rc-bos+sftm", 1), ("ic-bos+sftm", 0)])
def test_cue_conflict_stripes(name: str, axis: int) -> None:
    """Relation-based: the colour changes by one per column and not along rows; inventory-based: the other way."""
    (drawing,) = figures_of(construct(name, T=8, L=6), ["cue-conflict"])
    z = torch.tensor([[float("nan") if value is None else value for value in row] for row in drawing.data[0].z])
    across, along = z.diff(dim=axis), z.diff(dim=1 - axis)
    assert across.isfinite().sum() > 5
    assert (across[across.isfinite()] == 1).all()
    assert (along[along.isfinite()] == 0).all()


def test_confusion_columns_add_up_to_a_hundred() -> None:
    (drawing,) = figures_of(CountingTransformer.load("dot+sftm-d8-p32"), ["confusion"])
    columns = torch.tensor(drawing.data[0].z).sum(0)
    assert (columns[:9] - 100).abs().max() < 1e-3


def test_the_step_figure_is_left_out_where_many_units_count() -> None:
    assert list(figures_of(CountingTransformer.load("lin-d64-p64"), ["step-function"])) == []
    assert len(list(figures_of(construct("ic-lin", T=8, L=5), ["step-function"]))) == 1


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no figure 'atention'; did you mean attention"):
        list(figures_of(CountingTransformer.load("bos-d45-p4"), ["atention"]))


def test_the_list_names_every_figure_once() -> None:
    assert list(introspection.descriptions()) == list(introspection.NAMES)
    assert all(line.endswith((".", "?")) for line in introspection.descriptions().values())


def test_every_probe_but_the_comparison_with_the_paper_has_a_figure() -> None:
    assert {probe.name for probe in catalogue.CATALOGUE} - set(introspection.NAMES) == {"published"}


def test_the_picture_of_the_verdict_comes_first() -> None:
    model = construct("ic-lin", T=8, L=6)
    assert next(iter(figures_of(model, ["confusion", "transplants"]))).name == introspection.NAMES[0] == "transplants"


def test_what_is_measured_already_is_drawn_and_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = construct("rc-bos+sftm", T=8, L=6)
    result = cue_conflict(model, seed=3)
    monkeypatch.setattr(
        "counting_interp.probes.cue_conflict.cue_conflict", lambda *args, **options: pytest.fail("measured again")
    )
    (drawing,) = figures_of(model, ["cue-conflict"], measured=[result])
    assert drawing.table == result.rows()


def test_every_trace_that_can_be_hovered_says_what_it_is() -> None:
    for drawing in figures_of(CountingTransformer.load("bos+sftm-d45-p2")):
        for trace in drawing.data:
            assert trace.hovertemplate or trace.hoverinfo == "skip", (drawing.name, trace.name)


def test_sheets_have_labels_and_ticks_on_every_outer_panel() -> None:
    (sheet,) = figures_of(construct("ic-lin", T=8, L=6), ["count-sweep-sheet"])
    titles = [axis.title.text for axis in sheet.select_yaxes()]
    assert titles.count("answer") == 4
    assert [axis.showticklabels for axis in sheet.select_yaxes(col=1)] == [True] * 4
    assert [axis.showticklabels for axis in sheet.select_xaxes(row=4)] == [True] * 4
    assert [axis.title.text for axis in sheet.select_xaxes(row=4)] == ["\N{GREEK SMALL LETTER ALPHA}"] * 4
    names = {text.text for text in sheet.layout.annotations}
    assert {"i = A", "j = A"} <= names


@pytest.mark.parametrize(
    ("name", "label", "share"),
    [("rc-bos+sftm", "RC", "rc"), ("ic-lin", "IC", "ic"), ("ic-dot-compact", "gated", "gated")],
)
def test_the_verdict_s_column_is_the_shares_on_the_axis_of_the_answers(name: str, label: str, share: str) -> None:
    model = construct(name, T=12, L=6)
    result = transplants(model, seed=1)
    figure, plane = draw(result)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    rise = max(row["mean"] for row in figure.table if row["kind"] == "own")
    heights = dict(zip(("rc", "ic", "gated"), (bar.y[0] / rise for bar in bars), strict=True))
    assert heights[share] == pytest.approx(getattr(result.shares, share).value)
    assert sum(heights.values()) == pytest.approx(1)
    badge = next(text for text in figure.layout.annotations if text.bgcolor and label in text.text)
    assert badge.bgcolor == style.MECHANISMS[label].colour
    assert region(result.shares.rc.value, result.shares.ic.value) == label
    assert len(plane.table) == len(result.tokens)


def test_a_model_without_a_verdict_is_drawn_with_the_reason() -> None:
    model = CountingTransformer(CountingConfig.parse("dot+sftm", T=8, L=5, d=6, p=7))
    figure, _ = draw(transplants(model))
    assert "No verdict: no block moves the answer" in figure.caption
    assert not [trace for trace in figure.data if trace.type == "bar"]


def test_many_models_lie_in_the_plane_with_their_names() -> None:
    points = [PlanePoint("a", 1.0, 0.0, "bos+sftm"), PlanePoint("b", 0.0, 1.0, "lin"), PlanePoint("c", 0.1, 0.1, "dot")]
    figure = plane_figure(points, title="Three models", about="T = 32", path=True)
    assert "1 RC, 1 IC, 1 gated" in figure.caption
    assert {trace.name for trace in figure.data if trace.showlegend} == {"bos+sftm", "lin", "dot"}


@pytest.mark.parametrize(("name", "badge"), [("dot+sftm-d3-p32", "unsolved, leans IC"), ("lin+sftm-d64-p64", "IC")])
def test_the_picture_says_what_the_verdict_says(name, badge):
    """A model below 95 % is unsolved in its picture, too, with the reason in the caption."""
    model = CountingTransformer.load(name)
    verdict = classify(model)
    (drawing,) = figures_of(model, ["transplants"])
    for picture in (drawing, verdict.plot()):
        assert picture.layout.annotations[-1].text == f"<b> {badge} </b>"
        assert (verdict.reason in picture.caption) == (verdict.title == badge)
    assert verdict.title == badge


def test_a_layer_that_ignores_mixtures_gets_one_triangle():
    (flat,) = figures_of(CountingTransformer.load("bos+sftm-d45-p2"), ["simplex"])
    (three,) = figures_of(CountingTransformer.load("lin+sftm-d64-p64"), ["simplex"])
    assert [sum(trace.type == "heatmap" for trace in figure.data) for figure in (flat, three)] == [1, 3]
    assert "The answer is 6 everywhere" in flat.caption


def test_a_percentage_is_100_only_where_nothing_is_missing():
    assert [style.whole_percent(value) for value in (100, 99.99, 99.4, 0.2)] == ["100", "99", "99", "0"]


def test_captions_have_one_style_of_percent():
    for name in ("bos+sftm-d45-p2", "lin-d64-p64"):
        for drawing in figures_of(CountingTransformer.load(name)):
            assert not re.search(r"\d%", drawing.caption), drawing.caption
            counted = drawing.name.startswith(("bos-sweep", "count-sweep", "output-curves"))  # all cases, none sampled
            assert counted or "100 %" not in drawing.caption
