"""Spectra of layers that listen to one direction, to one per token, or to none in particular."""

from __future__ import annotations

from math import inf

import pytest
import torch

from counting_interp.models import task
from counting_interp.probes.spectrum import drop_at, participation, spectrum
from tests.helpers import assert_close, small_model
from tests.probes.planted import built, changed, other_basis


def test_relation_based_counting_needs_one_direction():
    """`rc-dot`, embedded in more room than it needs: W_in has rank one and singular value |c| / (T + 1)."""
    result = spectrum(built("rc-dot", T=12, L=6, d=16, p=14))
    assert_close(result.sigma[0], 12**0.5 / 13)
    assert_close(result.sigma[1:], torch.zeros(13))
    assert_close([result.participation, result.seen_participation], [1.0, 1.0])
    assert result.drop is None  # nothing falls at T where nothing stands before it
    assert_close(result.span_energy, 1.0)
    assert_close(result.span_baseline, 12 / 16)


def test_an_inventory_has_one_direction_per_token_and_falls_at_t():
    result = spectrum(built("ic-lin", T=12, L=6, d=16, p=14), n=4000)
    assert_close(result.sigma, torch.tensor([1.0] * 12 + [0.0] * 2))
    assert_close(result.participation, 12.0)
    assert result.drop == inf
    assert result.to_dict()["data"]["drop"] is None
    assert_close([result.token_energy, result.energy_baseline], [1 / 12, 1 / 16])
    # What is seen: e_t + n/L - 1 adds up to a constant, and all tokens are interchangeable: T - 1 equal directions.
    assert_close(result.seen[11:], torch.zeros(3), 1e-6)
    assert result.seen_participation == pytest.approx(11, rel=0.02)


def test_the_bos_direction_carries_everything_in_bos_sftm():
    """`rc-bos+sftm` reads `$` = e_1 + ... + e_T: all of W_in's energy lies along it."""
    result = spectrum(built("rc-bos+sftm", T=12, L=6))
    assert_close(result.bos_energy, 1.0)
    assert_close(result.token_energy, 1 / 12)
    assert_close(result.seen_along_bos, 1.0)


def test_an_inventory_does_not_listen_to_bos():
    model = built("ic-bos+sftm", T=12, L=6)
    result = spectrum(model)
    assert result.bos_energy == 0.0  # `$` = 0
    embeddings = torch.cat([model.W_E[:12], torch.nn.functional.one_hot(torch.tensor([0]), 12)])
    assert spectrum(changed(model, W_E=embeddings)).seen_along_bos < 0.2


def test_each_direction_names_the_tokens_closest_to_it():
    """Tokens along the axes, and units that listen to D, then to A, then to B and C together."""
    W_in = torch.zeros(6, 4, dtype=torch.float64)
    W_in[3, 0], W_in[0, 1], W_in[1:3, 2] = 5.0, -3.0, 1.0
    model = changed(small_model("dot"), W_E=torch.eye(7, 6, dtype=torch.float64), W_in=W_in)
    result = spectrum(model)
    assert_close(result.sigma, [5.0, 3.0, 2**0.5, 0.0])
    assert [names[0] for names in result.nearest[:2]] == ["D", "A"]
    assert {*result.nearest[2].split()[:2]} == {"B", "C"}
    assert result.rows()[0]["nearest_tokens"] == result.nearest[0]
    assert next(iter(spectrum(built("rc-bos+sftm", T=12, L=6)).nearest[0])) == "$"


def test_an_untrained_layer_prefers_nothing():
    result = spectrum(small_model("dot", T=8, L=5, d=64, p=64))
    assert 1 < result.drop < 1.2
    assert result.participation > 25
    assert result.token_energy == pytest.approx(result.energy_baseline, rel=0.3)
    assert result.span_energy == pytest.approx(result.span_baseline, rel=0.3)


def test_what_is_seen_does_not_depend_on_the_basis():
    model = small_model("bos+sftm")
    mine, other = spectrum(model), spectrum(other_basis(model))
    assert_close(other.seen, mine.seen, 1e-7)
    assert_close(other.seen_along_bos, mine.seen_along_bos, 1e-7)
    assert (other.sigma - mine.sigma).abs().max() > 0.01  # the weights alone do, as the docstring says
    turned = spectrum(other_basis(model, rotation=True))
    assert_close(turned.sigma, mine.sigma)
    assert_close([turned.token_energy, turned.bos_energy], [mine.token_energy, mine.bos_energy])


@pytest.mark.parametrize(("variant", "n_layers"), [("lin", 1), ("bos+sftm", 2)])
def test_by_hand_through_hooks(variant, n_layers):
    model = small_model(variant, n_layers)
    layer = n_layers - 1
    result = spectrum(model, layer=layer, n=64, seed=2)
    tokens = task.sample("paper", 64, T=7, L=5, generator=2)
    kept = {}
    model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.mlp.hook_pre", lambda x, hook: kept.update(pre=x))])
    pre = kept["pre"][:, -5:].reshape(-1, 4)
    variances = torch.linalg.eigvalsh(torch.cov(pre.T, correction=0)).flip(0)
    assert_close(result.seen.square(), variances)
    assert_close(result.sigma, torch.linalg.svdvals(model.state_dict()[f"blocks.{layer}.mlp.W_in"]))


def test_participation_counts_equal_values():
    assert_close(participation(torch.tensor([2.0, 2.0, 2.0, 0.0])), 3.0)
    assert participation(torch.zeros(3)) == 0.0
    assert drop_at(torch.tensor([4.0, 3.0, 2.0, 1.0]), 3) == 2.0
    assert drop_at(torch.tensor([4.0, 3.0, 2.0]), 3) is None
