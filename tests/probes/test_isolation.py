"""Sweeps of the feed-forward layer: steps where the construction puts them, none where it does not listen."""

from __future__ import annotations

import pytest
import torch

from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.isolation import bos_sweep, count_sweep, find_boundaries, isolated
from tests.helpers import assert_close, small_model
from tests.probes.planted import built, constant_model, other_basis
from tests.probes.test_bos_share import PUBLISHED


def test_bos_sweep_steps_at_the_same_alpha_for_every_pair():
    model = built("rc-bos+sftm", T=32, L=10)
    result = bos_sweep(model, steps=1001)
    assert result.predicted.shape == (16, 16, 1001)
    assert result.monotone.all()
    assert_close(result.spread, torch.zeros(9))
    assert_close(result.summary["variance_by_alpha"], 1.0)
    assert (result.summary["counts_reached"], result.summary["boundaries_crossed"]) == (10.0, 9)
    # A boundary lies between the shares that k and k + 1 copies leave for `$`.
    for k in range(1, 10):
        assert PUBLISHED[k] - 1e-3 < float(result.boundaries[0, 0, k - 1]) < PUBLISHED[k - 1] + 1e-3


def test_isolated_answers_with_the_count_whose_share_it_is_given():
    model = built("rc-bos+sftm", T=32, L=10)
    share = torch.tensor(PUBLISHED, dtype=torch.float64)[:, None]
    inputs = share * model.W_E[32] + (1 - share) * model.W_E[3] + model.W_E[7]
    assert isolated(model, inputs).tolist() == list(range(1, 11))


def test_a_layer_that_does_not_listen_to_bos():
    """`ic-bos+sftm`, `$` = 0: mixing in more of it changes nothing unless it takes weight from the counted token."""
    result = bos_sweep(built("ic-bos+sftm", T=12, L=6))
    others = result.predicted[~torch.eye(12, dtype=torch.bool)]
    assert (others == others[:, :1]).all()
    assert result.summary["counts_reached"] == 1.0
    assert result.summary["variance_by_alpha"] < 0.2


@pytest.mark.parametrize("name", ["rc-dot", "rc-bos", "rc-bos-tagged", "ic-lin", "ic-dot", "ic-bos", "hybrid-dot"])
def test_without_softmax_the_count_sweep_passes_through_every_count(name):
    """x'(k) lies at alpha = (k - 1) / (L - 1), and the construction counts it as k."""
    result = count_sweep(built(name, T=12, L=6), steps=6)
    assert result.defined.sum() == 132
    assert (result.predicted[result.defined] == torch.arange(1, 7)).all()
    assert result.summary["variance_by_alpha"] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["rc-bos+sftm", "ic-lin+sftm", "ic-dot+sftm", "ic-bos+sftm"])
def test_with_softmax_it_rises_from_1_to_l_at_the_same_places(name):
    result = count_sweep(built(name, T=12, L=6), steps=501)
    values = result.predicted[result.defined]
    assert (values[:, 0] == 1).all()
    assert (values[:, -1] == 6).all()
    assert result.monotone.all()
    assert_close(result.spread, torch.zeros(5))


@pytest.mark.parametrize("model", [small_model("dot"), small_model("lin+sftm"), constant_model(3)])
def test_untrained_and_constant_models_reach_few_counts(model):
    summary = count_sweep(model).summary
    assert summary["counts_reached"] < 3
    assert summary["variance_by_alpha"] is None or summary["variance_by_alpha"] < 0.5


def test_an_untrained_bos_model_depends_on_the_tokens():
    summary = bos_sweep(small_model("bos+sftm")).summary
    assert summary["variance_by_alpha"] is None or summary["variance_by_alpha"] < 0.9
    assert summary["counts_reached"] < 4


def test_by_hand_through_hooks():
    """One mixture at a time, put in place of the mixed token."""
    model = small_model("bos+sftm")
    result = bos_sweep(model, tokens=[1, 4, 6], steps=5)
    for a, i in enumerate([1, 4, 6]):
        for b, j in enumerate([1, 4, 6]):
            for c, alpha in enumerate([0.0, 0.25, 0.5, 0.75, 1.0]):
                x = alpha * model.W_E[7] + (1 - alpha) * model.W_E[i] + model.W_E[j]
                logits = model.run_with_hooks(
                    torch.zeros(5, dtype=torch.long),
                    fwd_hooks=[("blocks.0.hook_resid_mid", lambda mixed, hook, x=x: x.expand_as(mixed))],
                )
                assert result.predicted[a, b, c] == logits[2].argmax() + 1


def test_the_basis_does_not_matter():
    model = built("hybrid-bos+sftm", T=8, L=4)
    mine, other = bos_sweep(model), bos_sweep(other_basis(model))
    assert (mine.predicted == other.predicted).double().mean() > 0.999  # a point on a boundary may fall either way


def test_boundaries_of_rising_falling_and_wandering_predictions():
    alphas = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    rows = torch.tensor([[1, 1, 2, 4, 4], [4, 3, 2, 1, 1], [2, 1, 2, 1, 2], [3, 3, 3, 3, 3]])
    found = find_boundaries(rows, alphas, 4)
    nan = torch.nan
    expected = torch.tensor([[0.5, 0.75, 0.75], [0.75, 0.5, 0.25], [0.25, nan, nan], [nan, nan, nan]])
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("sweep", "variant", "n_layers", "message"),
    [
        (bos_sweep, "dot+sftm", 1, r"dot\+sftm has no `\$`"),
        (bos_sweep, "bos", 1, "do not add up to one.*run count-sweep"),
        (bos_sweep, "bos+sftm", 2, "has 2 layers"),
        (count_sweep, "lin", 2, "has 2 layers"),
    ],
)
def test_says_where_it_makes_no_sense(sweep, variant, n_layers, message):
    with pytest.raises(NotApplicable, match=message):
        sweep(small_model(variant, n_layers))


@pytest.mark.parametrize("tokens", [[], [7], [-1, 2]])
def test_tokens_outside_the_alphabet_are_refused(tokens):
    with pytest.raises(ValueError, match=r"a few of 0\.\.6, got \["):
        count_sweep(small_model("dot"), tokens=tokens)


def test_a_count_sweep_of_one_token_has_nothing_to_fill_with():
    with pytest.raises(ValueError, match=r"another to fill, got tokens=\[3\]"):
        count_sweep(small_model("dot"), tokens=[3])
