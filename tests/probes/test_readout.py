"""The read-out in closed form: one direction for every token, or one direction each."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models.constructions import construct
from counting_interp.probes.readout import readout
from tests.helpers import assert_close, small_model


@pytest.mark.parametrize("name", ["rc-bos", "rc-bos-tagged", "rc-bos+sftm", "rc-dot"])
def test_a_single_unit_is_one_shared_direction(name):
    result = readout(construct(name, T=12, L=6, p=5))
    assert result.transfer == pytest.approx(1)
    assert result.directions == 1
    assert result.by_count == pytest.approx(1, abs=1e-4)
    assert result.accuracy == 1


@pytest.mark.parametrize("name", ["ic-lin", "ic-lin+sftm", "ic-dot+sftm", "ic-dot", "ic-bos", "ic-bos+sftm"])
def test_an_inventory_has_a_direction_for_each_token(name):
    """Without direction r, the tokens behind it are stuck at one count: accuracy grows linearly up to rank T."""
    T, L = 12, 6
    result = readout(construct(name, T=T, L=L))
    assert result.transfer == pytest.approx(0, abs=0.15)
    assert_close(result.own.mean(), 1, 0.05)
    assert 0.8 * T <= result.directions <= T
    assert result.by_count is not None
    assert result.by_both is not None
    assert result.by_both > 20 * result.by_count
    assert result.rank_accuracy[0] <= 2 / L


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7])
def test_a_hybrid_transfers_as_much_as_its_shared_circuit_weighs(weight):
    assert readout(construct("hybrid-dot", T=32, L=10, weight=weight)).transfer == pytest.approx(weight, abs=0.07)


def test_all_directions_together_change_nothing():
    for name in ("hybrid-bos", "ic-dot+sftm", "rc-bos"):
        result = readout(construct(name, T=9, L=5, p=20))
        assert result.rank_accuracy[-1] == result.accuracy == 1


def test_variances_sum_to_one():
    for variant in ("lin", "bos+sftm"):
        result = readout(small_model(variant))
        shares = [result.by_token, result.by_count, result.by_both, result.by_rest]
        assert all(share is not None for share in shares)
        assert sum(shares) == pytest.approx(1)


def test_rescaling_and_permuting_hidden_units_changes_nothing():
    model = construct("hybrid-bos", T=10, L=5, dtype="float64", weight=0.37)  # no ties
    before = readout(model)
    mlp = model.blocks[0].mlp
    order = torch.randperm(model.config.p, generator=torch.Generator().manual_seed(1))
    scale = torch.logspace(-2, 2, model.config.p, dtype=torch.float64)
    with torch.no_grad():
        mlp.W_in.copy_((mlp.W_in * scale)[:, order])
        mlp.b_in.copy_((mlp.b_in * scale)[order])
        mlp.W_out.copy_((mlp.W_out / scale[:, None])[order])
        mlp.b_out.add_(3.0)
    after = readout(model)
    assert_close(after.transferred, before.transferred)
    assert_close(after.rank_accuracy[:2], before.rank_accuracy[:2], 0.05)
    assert after.by_count == pytest.approx(before.by_count)


def test_a_model_that_reads_nothing_has_no_directions():
    model = small_model("dot")
    with torch.no_grad():
        model.blocks[0].mlp.W_out.zero_()
    result = readout(model)
    assert_close(result.transfer, 0)  # a constant prediction times weights that sum to zero, up to rounding
    assert result.by_count is None
    assert result.directions == 0
