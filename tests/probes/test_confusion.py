"""Confusion: none for constructions, known ones for a model that always gives the same answer."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import task
from counting_interp.probes.confusion import confusion
from tests.helpers import EVERY_MODEL, assert_close, small_model
from tests.probes.planted import built, constant_model


def test_a_construction_makes_none():
    result = confusion(built("rc-dot", T=12, L=6))
    assert (result.accuracy, result.sequence_accuracy, result.over, result.under, result.bias) == (1, 1, 0, 0, 0)
    assert result.failures == ()
    assert result.n_failures == 0
    assert_close(result.positions[:, 1:], torch.diag(result.positions[:, 1:].diagonal()))
    assert_close(result.by_count, torch.ones(6))
    assert_close(result.by_token, torch.ones(12))
    assert result.summary["first_failure"] is None


@pytest.mark.parametrize("n_classes", [5, 6])
def test_a_constant_answer_is_confused_in_one_column(n_classes):
    result = confusion(constant_model(3, n_classes=n_classes))
    true = task.histogram(task.sample("paper", 3000, T=7, L=5, generator=0))
    shares = torch.bincount(true.flatten(), minlength=6)[1:] / true.numel()
    assert result.positions[:, [0, 1, 2, 4, 5]].sum() == 0
    assert_close(result.positions[:, 3] / result.positions.sum(), shares, 1e-6)
    assert_close(result.accuracy, shares[2], 1e-6)
    assert_close([result.over, result.under], [shares[:2].sum(), shares[3:].sum()], 1e-6)
    assert_close(result.bias, 3 - true.double().mean(), 1e-6)
    assert_close(result.by_count, [0.0, 0.0, 1.0, 0.0, 0.0])
    assert_close(result.floor, shares.max(), 1e-6)
    assert result.sequence_accuracy == 0.0  # 3 + 2 and 3 + 1 + 1 are the sequences with a count of 3: never all
    assert len(result.failures) == 20
    assert result.n_failures == 3000


def test_given_sequences_and_where_they_fail():
    model = constant_model(2)
    tokens = torch.tensor([[0, 0, 1, 1, 2], [3, 3, 3, 3, 3], [0, 0, 0, 1, 1]])
    result = confusion(model, tokens)
    assert result.sampler == "given"
    assert [failure.tokens for failure in result.failures] == [(3, 3, 3, 3, 3), (0, 0, 0, 1, 1), (0, 0, 1, 1, 2)]
    assert result.failures[0].sequence == ("D",) * 5
    assert result.failures[2].true == (2, 2, 2, 2, 1)
    assert result.failures[2].predicted == (2,) * 5
    nan = torch.nan
    torch.testing.assert_close(
        result.by_token, torch.tensor([2 / 5, 1.0, 0.0, 0.0, nan, nan, nan]).double(), equal_nan=True
    )
    assert result.to_dict()["data"]["by_token"][-1] is None


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_by_hand(variant, n_layers):
    model = small_model(variant, n_layers)
    result = confusion(model, n=40, seed=1, sampler="published")
    table = torch.zeros(5, 6, dtype=torch.long)
    for row in task.sample("published", 40, T=7, L=5, generator=1):
        for token, predicted in zip(row, model.predict(row), strict=True):
            table[int((row == token).sum()) - 1, int(predicted)] += 1
    assert torch.equal(result.positions, table)
    assert result.accuracy == pytest.approx(model.accuracy(n=40, seed=1, sampler="published"))
