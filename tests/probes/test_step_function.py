"""Step function: the hand-built dot+sftm model has the boundaries the paper prints; trained-like models have none."""

from __future__ import annotations

import math

import pytest

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.constructions import construct
from counting_interp.models.symmetries import random_symmetry
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.output_curves import step_function
from tests.helpers import assert_close

PRINTED = [0.318289, 0.471356, 0.591253, 0.687732, 0.767054, 0.833430, 0.889793, 0.938253, 0.980365]


def test_the_hand_built_model_has_the_printed_boundaries() -> None:
    result = step_function(construct("ic-dot+sftm", T=32, L=10))
    assert_close(result.values, [k * math.e / (k * math.e + 10 - k) for k in range(1, 11)], 1e-5)
    assert_close(result.boundaries, PRINTED, 1e-5)
    assert result.separated


@pytest.mark.parametrize("name", ["rc-bos", "rc-bos+sftm", "rc-dot", "ic-lin", "ic-lin+sftm"])
def test_every_plain_construction_separates_its_counts(name: str) -> None:
    assert step_function(construct(name, T=12, L=6)).separated


def test_a_rescaled_unit_keeps_its_order() -> None:
    model = random_symmetry(construct("ic-dot+sftm", T=12, L=6), seed=3)
    assert step_function(model).separated


def test_it_says_no_where_several_units_count() -> None:
    model = CountingTransformer(CountingConfig.parse("dot", T=12, L=6, d=12, p=40))
    with pytest.raises(NotApplicable, match="hidden units take part in counting"):
        step_function(model)


def test_it_says_no_to_two_layers() -> None:
    model = CountingTransformer(CountingConfig.parse("dot", T=12, L=6, d=12, p=1, n_layers=2))
    with pytest.raises(NotApplicable):
        step_function(model)
