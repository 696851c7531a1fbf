"""Verdicts on models whose mechanism is known, under every change that leaves their function alone."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.data import zoo_names
from counting_interp.interp.verdict import Verdict, classify
from counting_interp.interp.verdict.capacity import allows
from counting_interp.interp.verdict.evidence import evidence
from counting_interp.interp.verdict.measure import measure, trained_on
from counting_interp.interp.verdict.rule import rule
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry
from counting_interp.probes.applicability import NotApplicable
from counting_interp.util.errors import InterpError
from tests.helpers import small_model

UNSEARCHED = [name for name, entry in CATALOGUE.items() if entry.least_d is None]


@pytest.mark.parametrize("name", UNSEARCHED)
def test_constructions(name):
    model = construct(name, T=12, L=6)
    verdict = classify(model, quick=True)
    assert verdict.label == CATALOGUE[name].mechanism
    assert verdict.case == (CATALOGUE[name].case or {"RC": "relation", "IC": "inventory"}[verdict.label])
    assert verdict.confidence is not None
    assert verdict.confidence > 0.9
    assert verdict.accuracy == 1


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.case == "gated"])
def test_a_gated_count_is_neither(name):
    """Attention compares, so it is no inventory; the result is read token by token, so it is no relation."""
    verdict = classify(construct(name, T=12, L=5, d=14), quick=True)
    assert (verdict.label, verdict.case) == ("mixed", "gated")
    assert "token by token" in verdict.meaning
    assert any("counts neither" in line for line in verdict.evidence)


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
def test_planted_hybrids_are_never_pure(name, weight):
    verdict = classify(construct(name, T=14, L=6, weight=weight), quick=True)
    assert (verdict.label, verdict.case) == ("mixed", "hybrid")


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(UNSEARCHED),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["float32", "float64"]),
    sizes=st.sampled_from([(9, 4), (12, 7), (8, 8)]),
    surplus=st.integers(0, 5),
    extra_class=st.integers(0, 1),
)
def test_no_symmetry_seed_or_precision_changes_a_verdict(name, seed, dtype, sizes, surplus, extra_class):
    T, L = sizes
    entry = CATALOGUE[name]
    p = entry.smallest_p(T, L) + surplus
    model = construct(name, T=T, L=L, d=T + 1 + surplus, p=p, n_classes=L + extra_class, dtype=dtype)
    verdict = classify(random_symmetry(model, seed, rename=True), quick=True, seed=seed)
    assert verdict.label == entry.mechanism


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_untrained_and_constant_models_are_unsolved(variant, n_layers):
    model = small_model(variant, n_layers, T=9, L=6)
    assert classify(model, quick=True).label == "unsolved"
    with torch.no_grad():
        model.blocks[-1].mlp.W_out.zero_()
    verdict = classify(model, quick=True)
    assert (verdict.label, verdict.leans, verdict.confidence) == ("unsolved", None, None)
    assert "confidence" not in str(verdict)


def test_counting_small_counts_only_is_unsolved():
    for name in ("rc-bos+sftm", "ic-lin"):
        model = construct(name, T=12, L=6)
        with torch.no_grad():
            model.blocks[0].mlp.b_out[2:] -= 1e6
        verdict = classify(model, quick=True)
        assert verdict.label == "unsolved"
        assert "are needed to call it solved" in verdict.against[0]


@pytest.mark.parametrize("name", ["rc-dot", "ic-lin"])
def test_a_model_is_judged_on_what_it_was_trained_on_or_counts_best_on(name):
    """Count L never occurs in the published sequences; a model that does not know it is solved there."""
    model = construct(name, T=12, L=4, n_classes=5)
    with torch.no_grad():
        model.blocks[0].mlp.b_out[-1] -= 1e6
    verdict = classify(model, quick=True)
    assert (verdict.label, verdict.sampler, verdict.accuracy) == (CATALOGUE[name].mechanism, "published", 1.0)
    assert "(published sampler)" in str(verdict)
    model.metadata["training"] = {"sampler": "paper"}
    verdict = classify(model, quick=True)
    assert (verdict.label, verdict.sampler, verdict.leans) == ("unsolved", "paper", CATALOGUE[name].mechanism)
    assert verdict.title == f"unsolved, leans {CATALOGUE[name].mechanism}"


def test_where_a_model_was_trained_is_read_from_its_metadata():
    model = small_model("dot")
    for metadata, expected in (
        ({}, None),
        ({"task": {"sampler": "uniform"}}, "uniform"),
        ({"training": {"sampler": "published"}, "task": {"sampler": "paper"}}, "published"),
        ({"training": {"epochs": 5}, "task": {"sampler": "made up"}}, None),
    ):
        model.metadata = metadata
        assert trained_on(model) == expected


@pytest.mark.parametrize(("T", "L"), [(4, 3), (8, 4), (64, 15)])
def test_one_hidden_unit_is_relation_based_at_every_size(T, L):
    assert classify(construct("rc-bos+sftm", T=T, L=L, p=1), quick=True).label == "RC"


def one_unit_with_offsets() -> CountingTransformer:
    """Relation-based with one hidden unit, scores and values that compensate each other token by token, and tokens that
    begin at different values: what training finds at small T. Score S_ts = a_ts / f_s with f_s the value of s, so that
    every copy of t adds one and every other token nothing; the residual adds f_t, which the score of t takes back."""
    T, L = 8, 4
    f = torch.linspace(0.5, 3.0, T, dtype=torch.float64)
    config = CountingConfig.parse("bos", T=T, L=L, d=T + 1, p=1, dtype="float64")
    weights = {name: torch.zeros_like(value) for name, value in CountingTransformer(config).state_dict().items()}
    weights["embed.W_E"] = torch.eye(T + 1, dtype=torch.float64)
    scores = torch.zeros(T + 1, T + 1, dtype=torch.float64)
    scores[:T, :T] = torch.eye(T, dtype=torch.float64) / f
    scores[:T, T] = -f  # `$` has the value one
    weights["blocks.0.attn.W_Q"] = scores * config.d**0.5
    weights["blocks.0.attn.W_K"] = torch.eye(T + 1, dtype=torch.float64)
    weights["blocks.0.mlp.W_in"][:, 0] = torch.cat([f, torch.ones(1, dtype=torch.float64)])
    count = torch.arange(1, L + 1, dtype=torch.float64)
    weights["blocks.0.mlp.W_out"][0] = 2 * count
    weights["blocks.0.mlp.b_out"] = -count.square()
    return CountingTransformer(config, weights)


def test_one_hidden_unit_is_relation_based_however_its_tokens_are_offset():
    model = one_unit_with_offsets()
    assert model.accuracy(n=300) == 1
    verdict = classify(model, quick=True)
    assert verdict.label == "RC"
    assert verdict.numbers["kept"] == pytest.approx(0, abs=0.05)
    assert verdict.numbers["transfer"] == pytest.approx(1, abs=0.05)


def two_layers(variant: str, scores: dict[int, float]) -> CountingTransformer:
    """Relation-based counting in one block; the other one hands its input on, or reads the count from it.

    d = T + 1: orthogonal tokens, and a coordinate c that is one on every token. The block that counts has a score of
    one between equal tokens, which adds k to c; in the other all scores are zero, and the ReLU passes what is positive.

    Args:
        scores: between equal tokens, of the blocks that compare.
    """
    T, L = 8, 5
    d = T + 1
    config = CountingConfig.parse(variant, T=T, L=L, d=d, p=d, n_layers=2, dtype="float64")
    tags = torch.ones(T, 1, dtype=torch.float64)
    tokens = torch.cat([torch.eye(T, dtype=torch.float64), 0 * tags], 1)
    count = torch.arange(1, L + 1, dtype=torch.float64)
    weights = {name: torch.zeros_like(value) for name, value in CountingTransformer(config).state_dict().items()}
    weights["embed.W_E"] = torch.cat([tokens[:, :T], tags], 1)
    for block, score in scores.items():
        weights[f"blocks.{block}.attn.W_Q"] = score * d**0.5 * tokens.T @ tokens
        weights[f"blocks.{block}.attn.W_K"] = torch.eye(d, dtype=torch.float64)
    weights["blocks.0.mlp.W_in"] = weights["blocks.0.mlp.W_out"] = torch.eye(d, dtype=torch.float64)
    weights["blocks.1.mlp.W_in"][-1, 0] = 1
    weights["blocks.1.mlp.b_in"][0] = -1  # the residual's tag
    weights["blocks.1.mlp.W_out"][0] = 2 * count
    weights["blocks.1.mlp.b_out"] = -count.square()
    return CountingTransformer(config, weights)


@pytest.mark.parametrize("block", [0, 1])
def test_two_layers_the_block_that_compares_is_found(block):
    model = two_layers("dot", {block: 1.0})
    assert model.accuracy(n=200) == 1
    verdict = classify(model, quick=True)
    assert verdict.label == "RC"
    assert verdict.numbers["kept"] == pytest.approx(0, abs=0.01)
    assert verdict.ruling.layer == block
    assert sum("self path of block" in line for line in verdict.evidence) == 2
    assert [flattening.kept for flattening in verdict.measures.flattenings] == pytest.approx(
        [block, 1 - block], abs=0.01
    )


def test_two_layers_that_both_compare_are_asked_together():
    """Block 1 counts a little, from what block 0 has written. Whichever is flattened, the other still counts: with both
    flattened, nothing is left."""
    measures = measure(two_layers("dot", {0: 1.0, 1: 0.02}), quick=True, seed=0)
    assert all(flattened.slopes[:, 0].mean() > 0.5 for flattened in measures.flattenings)
    assert measures.flattened.layer is None
    assert measures.flattened.slopes[:, 0].mean() == pytest.approx(0, abs=0.01)
    ruling = rule(measures, seed=0)
    assert ruling.numbers.kept == pytest.approx(0, abs=0.01)
    assert ruling.intervals["kept"] == pytest.approx((0, 0), abs=0.01)
    assert evidence(measures, ruling)[0] == "with no block comparing, 0% of the count is left"
    assert measures.flattened in measures.results


def test_same_seed_same_verdict_and_json_without_surprises():
    model = construct("hybrid-bos", T=10, L=5)
    first, second = classify(model, quick=True, seed=4), classify(model, quick=True, seed=4)
    assert isinstance(first, Verdict)
    assert first.to_dict() == second.to_dict()
    assert str(first) == str(second)
    document = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    assert {"label", "case", "leans", "numbers", "intervals", "confidence", "accuracy", "sampler"} <= set(document)
    for name, (low, high) in document["intervals"].items():
        assert low <= document["numbers"][name] <= high
    assert first.label in str(first)
    assert "<script" not in first._repr_html_()
    assert first.label in first._repr_html_()


def test_a_row_for_tables_is_flat_and_says_what_the_verdict_says():
    verdict = classify(construct("ic-lin", T=9, L=4), quick=True)
    row = verdict.row()
    assert all(value is None or isinstance(value, (str, int, float)) for value in row.values())
    assert (row["label"], row["case"], row["kept"], row["with_s"]) == ("IC", "inventory", 1.0, pytest.approx(1))
    assert row["kept_low"] <= row["kept"] <= row["kept_high"]


def test_overflowing_weights_are_unsolved_not_a_crash():
    model = small_model("dot", T=9, L=6, dtype="float32")
    with torch.no_grad():
        model.embed.W_E.mul_(1e20)
    assert classify(model, quick=True).label == "unsolved"


def test_a_model_far_too_large_is_refused_at_once():
    model = small_model("dot", T=2000, L=1500, d=2, p=2)
    with pytest.raises(InterpError, match="T=2000, L=1500"):
        classify(model)


def test_two_places_cannot_be_in_conflict():
    with pytest.raises(NotApplicable, match="needs L >= 3"):
        classify(small_model("dot", L=2))


def test_what_an_architecture_allows_is_said_and_not_used():
    assert "only IC" in allows(CountingConfig.parse("lin", T=8, L=4, d=8, p=8))
    assert "only RC" in allows(CountingConfig.parse("bos", T=8, L=4, d=8, p=1))
    assert "not IC alone" in allows(CountingConfig.parse("bos", T=8, L=4, d=8, p=4))
    wrong_mechanism = classify(construct("ic-bos+sftm", T=10, L=5, p=12), quick=True)
    assert wrong_mechanism.label == "IC"
    assert "RC and IC" in wrong_mechanism.to_dict()["allows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names())
def test_the_zoo(name):
    model = CountingTransformer.load(name)
    config, verdict = model.config, classify(model)
    if verdict.label == "unsolved":
        assert model.accuracy(n=1000, sampler="published") < 0.95
    elif config.name in ("lin", "lin+sftm", "dot+sftm"):
        assert verdict.label == "IC"
    elif config.p <= 4:
        assert verdict.label == "RC"
