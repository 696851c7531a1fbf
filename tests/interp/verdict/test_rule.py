"""Verdicts on models whose mechanism is known, under every change that leaves their function alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.data import zoo_path
from counting_interp.interp.verdict import Mechanism, classify
from counting_interp.interp.verdict.rule import MIN_ACCURACY
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry
from counting_interp.probes.accuracy import trained_on
from counting_interp.probes.applicability import NotApplicable
from counting_interp.util.errors import InterpError
from tests.helpers import small_model

PURE = [name for name, entry in CATALOGUE.items() if entry.least_d is None and entry.mechanism in ("RC", "IC")]
INVENTORIES = ("IC", "IC, sharpened by attention")


@pytest.mark.parametrize("name", PURE)
def test_constructions(name):
    verdict = classify(construct(name, T=12, L=6), quick=True)
    assert verdict.mechanism.group == CATALOGUE[name].mechanism
    assert verdict.accuracy == 1
    assert sum(share.value for share in verdict.shares) == pytest.approx(1)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.case == "gated"])
def test_a_gated_count_is_neither(name):
    """Attention compares, so it is no inventory; the result is read token by token, so it is no relation."""
    verdict = classify(construct(name, T=12, L=5, d=14), quick=True)
    assert verdict.mechanism == Mechanism.GATED
    assert verdict.numbers["gated"] > 0.6


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
def test_planted_hybrids_have_the_share_that_was_planted(name, weight):
    verdict = classify(construct(name, T=14, L=6, weight=weight))
    assert verdict.numbers["RC"] == pytest.approx(weight, abs=0.1)
    assert verdict.mechanism == Mechanism.MIXED


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(PURE),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(["float32", "float64"]),
    sizes=st.sampled_from([(9, 4), (12, 7), (8, 8)]),
)
def test_a_verdict_does_not_change_under_symmetries(name, seed, dtype, sizes):
    T, L = sizes
    model = construct(name, T=T, L=L, dtype=dtype)
    moved = random_symmetry(model, seed)
    before, after = classify(model, quick=True), classify(moved, quick=True)
    assert after.mechanism == before.mechanism
    for name, value in before.numbers.items():
        assert after.numbers[name] == pytest.approx(value, abs=0.1)  # a rounded answer in the middle may flip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_that_does_not_count_is_unsolved_and_says_why(name):
    verdict = classify(small_model(name, T=8, L=5), quick=True)
    assert verdict.mechanism == Mechanism.UNSOLVED
    assert f"{MIN_ACCURACY * 100:.0f} % are needed" in verdict.reason
    assert verdict.against == ()


def test_what_argues_against_a_label_is_said():
    verdict = classify(construct("rc-bos+sftm", T=12, L=6), quick=True)
    assert not any("bystander" in line for line in verdict.against)
    numbers = {"null": 0.31}
    estimates = tuple(replace(each, value=numbers.get(each.name, each.value)) for each in verdict.estimates)
    doubtful = replace(verdict, estimates=estimates)
    assert any("heard by a bystander, move the answer 0.31 as far" in line for line in doubtful.against)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bos+sftm-d45-p2", {"RC"}),
        ("bos+sftm-d64-p64", {"RC"}),
        ("lin-d64-p64", {"IC"}),
        ("lin+sftm-d64-p64", {"IC"}),
        ("dot+sftm-d64-p128", set(INVENTORIES)),
        ("dot+sftm-d3-p32", {"unsolved"}),
    ],
)
def test_trained_models(name, expected):
    assert classify(CountingTransformer.load(zoo_path(name))).mechanism.value in expected


def test_the_sampler_of_the_training_decides_which_counts_are_asked():
    model = CountingTransformer.load(zoo_path("bos+sftm-d45-p2"))
    assert trained_on(model) == "published"
    verdict = classify(model)
    assert verdict.sampler == "published"
    assert verdict.transplants is not None
    assert int(verdict.transplants.counts.max()) == 9


def test_the_same_seed_gives_the_same_verdict_and_another_one_the_same_label():
    model = construct("rc-bos+sftm", T=12, L=6)
    first, second, other = (classify(model, quick=True, seed=seed) for seed in (3, 3, 4))
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    assert other.mechanism == first.mechanism


def test_what_is_too_small_or_too_large_is_refused_in_a_sentence():
    with pytest.raises(NotApplicable, match="T >= 4, L >= 3"):
        classify(CountingTransformer(CountingConfig.parse("dot", T=4, L=2, d=3, p=2)))
    large = CountingTransformer(CountingConfig.parse("dot", T=512, L=512, d=512, p=512))
    with pytest.raises(InterpError, match="would take minutes"):
        classify(large)
