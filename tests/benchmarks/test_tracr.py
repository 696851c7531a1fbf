"""Programs compiled by Tracr: the weights count, and the verdict says what the program does."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from benchmarks.tracr import Compiled, load
from counting_interp.models import task
from counting_interp.probes.transplants import transplants


@pytest.mark.parametrize("name", ["histogram", "histogram-causal"])
def test_the_library_program_compares_in_attention(name):
    """`make_hist` is the width of a selector of equal tokens, and one direction holds it: RC, wholly."""
    model = load(name)
    tokens = torch.cat([task.sample(law, 500, T=8, L=6, generator=0) for law in ("paper", "uniform")])
    assert (model.predict(tokens) == model.truth(tokens)).all()
    assert model.config.causal == (name == "histogram-causal")
    result = transplants(model)
    assert (result.label, result.shares.rc.value, result.shares.ic.value) == ("RC", 1, 0)


def test_without_its_start_token_it_cannot_count():
    """Attention then has nothing but equal tokens to divide its weight among."""
    model = load("histogram")
    assert isinstance(model.module, Compiled)
    tokens = torch.tensor([[1, 1, 2, 3, 3, 3]])
    said = model.module(tokens).argmax(-1) + 1
    assert said.unique().numel() == 1
    assert model.predict(tokens).tolist() == [[2, 2, 1, 3, 3, 3]]


def test_an_inventory_whose_heads_see_one_token_and_the_start():
    """A head writes 1 / (1 + n), so a step depends on how many copies are heard: the bystander must hear as many."""
    model = load("inventory")
    tokens = torch.tensor(list(product(range(5), repeat=4)))
    assert (model.predict(tokens) == task.histogram(tokens)).all()
    result = transplants(model)
    assert result.shares.ic.value == pytest.approx(1)
    assert "of 7 blocks" in result.reason  # so there is no label
