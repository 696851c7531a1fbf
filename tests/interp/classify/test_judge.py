"""Verdicts on models whose mechanism is known, under every change that leaves their function alone."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interp.classify import Verdict, classify
from interp.classify.capacity import allows
from models import CountingConfig, CountingTransformer, zoo
from models.config import VARIANTS
from models.constructions import CATALOGUE, construct
from models.errors import InterpError
from models.symmetries import random_symmetry
from probes.applicability import NotApplicable
from tests.helpers import small_model

UNSEARCHED = [name for name, entry in CATALOGUE.items() if entry.least_d is None]


@pytest.mark.parametrize("name", UNSEARCHED)
def test_constructions(name):
    model = construct(name, T=12, L=6)
    verdict = classify(model, quick=True)
    assert verdict.label == CATALOGUE[name].mechanism
    assert verdict.confidence > 0.9
    assert verdict.accuracy == 1


@pytest.mark.parametrize("name", ["ic-dot-coherence", "ic-bos-coherence"])
def test_a_gated_count_is_inventory_based(name):
    """After the swap the count is lost: the feed-forward layer only listens to the identity it is told."""
    verdict = classify(construct(name, T=12, L=5, d=14), quick=True)
    assert verdict.label == "IC"
    assert abs(verdict.measures["follows_t"]) + abs(verdict.measures["follows_s"]) < 0.3
    assert any("gated" in line for line in verdict.evidence)


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
def test_planted_hybrids_are_never_pure(name, weight):
    assert classify(construct(name, T=14, L=6, weight=weight), quick=True).label == "mixed"


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
    assert verdict.label == "unsolved"
    assert verdict.axes == {"comparison": "unclear", "readout": "unclear"}
    assert max(verdict.scores.values()) < 0.2


def test_counting_small_counts_only_is_unsolved():
    for name in ("rc-bos+sftm", "ic-lin"):
        model = construct(name, T=12, L=6)
        with torch.no_grad():
            model.blocks[0].mlp.b_out[2:] -= 1e6
        verdict = classify(model, quick=True)
        assert verdict.label == "unsolved"
        assert "too little" in verdict.evidence[0]


@pytest.mark.parametrize("name", ["rc-dot", "ic-lin"])
def test_a_model_that_never_saw_the_largest_count_is_judged_on_the_others(name):
    model = construct(name, T=12, L=6, n_classes=7)
    with torch.no_grad():
        model.blocks[0].mlp.b_out[-1] -= 1e6
    verdict = classify(model, quick=True)
    assert verdict.label == CATALOGUE[name].mechanism
    assert any("count 6 is left out" in line for line in verdict.against)


def two_layers(variant: str, compare_in: int) -> CountingTransformer:
    """Relation-based counting in one block; the other one hands its input on, or reads the count from it.

    d = T + 1: orthogonal tokens, and a coordinate c that is one on every token. The block that counts has a score of
    one between equal tokens, which adds k to c; in the other all scores are zero, and the ReLU passes what is positive.
    """
    T, L = 8, 5
    d = T + 1
    config = CountingConfig.parse(variant, T=T, L=L, d=d, p=d, n_layers=2, dtype="float64")
    tags = torch.ones(T, 1, dtype=torch.float64)
    tokens = torch.cat([torch.eye(T, dtype=torch.float64), 0 * tags], 1)
    count = torch.arange(1, L + 1, dtype=torch.float64)
    weights = {name: torch.zeros_like(value) for name, value in CountingTransformer(config).state_dict().items()}
    weights["embed.W_E"] = torch.cat([tokens[:, :T], tags], 1)
    weights[f"blocks.{compare_in}.attn.W_Q"] = d**0.5 * tokens.T @ tokens
    weights[f"blocks.{compare_in}.attn.W_K"] = torch.eye(d, dtype=torch.float64)
    weights["blocks.0.mlp.W_in"] = weights["blocks.0.mlp.W_out"] = torch.eye(d, dtype=torch.float64)
    weights["blocks.1.mlp.W_in"][-1, 0] = 1
    weights["blocks.1.mlp.b_in"][0] = -1  # the residual's tag
    weights["blocks.1.mlp.W_out"][0] = 2 * count
    weights["blocks.1.mlp.b_out"] = -count.square()
    return CountingTransformer(config, weights)


@pytest.mark.parametrize("block", [0, 1])
def test_two_layers_the_block_that_compares_is_found(block):
    model = two_layers("dot", block)
    assert model.accuracy(n=200) == 1
    verdict = classify(model, quick=True)
    assert verdict.label == "RC"
    assert verdict.measures["layer"] == block
    assert sum("cue conflict in block" in line for line in verdict.evidence) == 2


def test_same_seed_same_verdict_and_json_without_surprises():
    model = construct("hybrid-bos", T=10, L=5)
    first, second = classify(model, quick=True, seed=4), classify(model, quick=True, seed=4)
    assert first == second
    assert isinstance(first, Verdict)
    document = json.loads(json.dumps(first.to_dict(), allow_nan=False))
    assert {"label", "scores", "intervals", "confidence", "accuracy", "evidence", "against", "axes"} <= set(document)
    for name, (low, high) in first.intervals.items():
        assert 0 <= low <= first.scores[name] <= high <= 1
    assert first.label in str(first)
    assert "<script" not in first._repr_html_()
    assert first.label in first._repr_html_()


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
    assert "only RC" in allows(CountingConfig.parse("bos", T=8, L=4, d=8, p=4))
    wrong_mechanism = classify(construct("ic-bos+sftm", T=10, L=5, p=12), quick=True)
    assert wrong_mechanism.label == "IC"
    assert "RC and IC" in wrong_mechanism.allows


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_the_zoo(name):
    model = zoo.load(name)
    config, verdict = model.config, classify(model)
    if verdict.label == "unsolved":
        assert model.accuracy(n=1000, sampler="published") < 0.95
    elif config.name in ("lin", "lin+sftm", "dot+sftm"):
        assert verdict.label == "IC"
    elif config.p <= 4:
        assert verdict.label == "RC"
