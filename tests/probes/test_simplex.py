"""Three-token maps: straight boundaries for an inventory, at the values printed with the published construction."""

from __future__ import annotations

import pytest
import torch

from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.simplex import mean_bos_weight, simplex
from tests.helpers import assert_close, small_model
from tests.probes.planted import built, other_basis

PRINTED = [0.318289, 0.471356, 0.591253, 0.687732, 0.767054, 0.833430, 0.889793, 0.938253, 0.980365]


def test_the_inventory_of_dot_sftm_has_the_printed_boundaries_whatever_else_is_mixed_in():
    result = simplex(built("ic-dot+sftm", T=32, L=10))
    assert result.boundaries.shape == (3, 3, 9)
    assert_close(result.boundaries, torch.tensor(PRINTED).expand(3, 3, 9), 1.1e-3)  # to a step of the grid
    assert_close(result.summary["variance_by_own_weight"], 1.0)
    assert result.summary["boundary_spread"] == 0.0
    assert result.summary["counts_reached"] == 10


def test_relation_based_counting_does_not_care_what_is_mixed_in():
    model = built("rc-bos+sftm", T=12, L=6)
    result = simplex(model)
    assert_close(result.bos_weight, mean_bos_weight(model))
    assert len(result.predicted.unique()) == 1
    assert result.summary["variance_by_own_weight"] is None
    assert result.summary["boundaries_crossed"] == 0


def test_an_untrained_model_has_no_such_boundaries():
    summary = simplex(small_model("dot+sftm")).summary
    assert summary["boundaries_crossed"] < 4
    assert summary["variance_by_own_weight"] is None or summary["variance_by_own_weight"] < 0.9


@pytest.mark.parametrize("variant", ["dot+sftm", "lin+sftm", "bos+sftm"])
def test_by_hand_through_hooks(variant):
    model = small_model(variant)
    result = simplex(model, tokens=(0, 2, 5), steps=4, bos_weight=0.25)
    assert result.weights.shape == (15, 3)
    assert_close(result.weights.sum(1), torch.ones(15))
    share = 0.25 if variant == "bos+sftm" else 0.0
    for r, residual in enumerate((0, 2, 5)):
        for point, weights in enumerate(result.weights):
            x = (1 - share) * (weights @ model.W_E[[0, 2, 5]]) + share * model.W_E[-1] + model.W_E[residual]
            logits = model.run_with_hooks(
                torch.zeros(5, dtype=torch.long),
                fwd_hooks=[("blocks.0.hook_resid_mid", lambda mixed, hook, x=x: x.expand_as(mixed))],
            )
            assert result.predicted[r, point] == logits[0].argmax() + 1


def test_the_basis_does_not_matter():
    model = built("ic-dot+sftm", T=8, L=4)
    mine, other = simplex(model), simplex(other_basis(model))
    assert (mine.predicted == other.predicted).double().mean() > 0.99  # a point on a boundary may fall either way


@pytest.mark.parametrize(
    ("variant", "n_layers", "message"), [("lin", 1, "do not add up to one"), ("dot+sftm", 2, "has 2 layers")]
)
def test_says_where_it_makes_no_sense(variant, n_layers, message):
    with pytest.raises(NotApplicable, match=message):
        simplex(small_model(variant, n_layers))
    with pytest.raises(NotApplicable, match="three tokens are mixed, and this model knows 2"):
        simplex(small_model("dot+sftm", T=2, L=2))


@pytest.mark.parametrize("tokens", [(1, 1, 2), (0, 1, 7)])
def test_three_different_tokens_are_needed(tokens):
    with pytest.raises(ValueError, match="three different ones"):
        simplex(small_model("dot+sftm"), tokens=tokens)
