"""Output curves: one step per occurrence, whoever the other token is."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models.constructions import CATALOGUE
from counting_interp.probes.output_curves import output_curves
from tests.helpers import EVERY_MODEL, assert_close, small_model
from tests.probes.planted import built, constant_model, other_basis


@pytest.mark.parametrize("varies", ["filler", "counted"])
@pytest.mark.parametrize("name", ["rc-bos+sftm", "rc-dot", "ic-lin", "ic-dot+sftm", "hybrid-bos"])
def test_constructions_count_every_curve_and_all_curves_agree(name, varies):
    """Orthogonal tokens are interchangeable: the logits do not depend on who is counted or what fills the rest."""
    assert name in CATALOGUE
    result = output_curves(built(name, T=12, L=6), varies=varies)
    assert result.logits.shape == (11, 6, 6)
    assert (result.predicted == torch.arange(1, 7)).all()
    assert result.summary["accuracy"] == result.summary["curves_all_right"] == 1.0
    assert result.summary["logit_spread"] < 1e-6
    assert_close(result.summary["variance_by_occurrences"], 1.0)


@pytest.mark.parametrize("n_classes", [5, 6])
def test_a_constant_model_counts_one_point_of_each_curve(n_classes):
    result = output_curves(constant_model(3, n_classes=n_classes))
    assert result.logits.shape == (6, 5, 5)
    assert_close(result.summary["accuracy"], 0.2)
    assert result.summary["curves_all_right"] == 0.0
    assert result.summary["variance_by_occurrences"] is None


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_by_hand(variant, n_layers):
    model = small_model(variant, n_layers)
    for varies in ("filler", "counted"):
        result = output_curves(model, varies=varies, fixed=2)
        assert result.varied.tolist() == [0, 1, 3, 4, 5, 6]
        for c, i in ((0, 1), (3, 4), (5, 5)):
            token = int(result.varied[c])
            counted, filler = (2, token) if varies == "filler" else (token, 2)
            logits = model(torch.tensor([counted] * i + [filler] * (5 - i)))[0]
            assert_close(result.logits[c, i - 1], logits)


def test_defaults_are_the_published_ones_where_they_fit():
    result = output_curves(small_model("dot", T=32, L=3))
    assert (result.fixed, result.varies, len(result.varied)) == (22, "filler", 31)
    assert output_curves(small_model("dot")).fixed == 6


def test_the_basis_does_not_matter():
    model = small_model("bos+sftm")
    assert_close(output_curves(other_basis(model)).logits, output_curves(model).logits, 1e-7)


def test_what_is_wrong_with_an_argument_is_said():
    with pytest.raises(ValueError, match="varies must be filler or counted, got 'both'"):
        output_curves(small_model("dot"), varies="both")
    with pytest.raises(ValueError, match=r"must lie in 0\.\.6, got 7"):
        output_curves(small_model("dot"), fixed=7)
