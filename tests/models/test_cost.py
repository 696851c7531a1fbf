"""Batches never change what a model says, and large models get smaller ones."""

from __future__ import annotations

import torch

from counting_interp.models import CountingConfig, task
from counting_interp.models.cost import activations, affordable, batch_size, share_right, too_large
from tests.helpers import assert_close, small_model


def test_shares_do_not_depend_on_the_batches(monkeypatch):
    model = small_model("bos")
    tokens = task.sample("paper", 100, T=7, L=5, generator=0)
    whole = (model.predict(tokens) == task.histogram(tokens)).double().mean(1)
    assert torch.equal(share_right(model, tokens), whole)
    monkeypatch.setattr("counting_interp.models.cost.batch_size", lambda config: 7)
    assert torch.equal(share_right(model, tokens), whole)


def test_activations_do_not_depend_on_the_batches(monkeypatch):
    model = small_model("bos+sftm")
    tokens = task.sample("paper", 20, T=7, L=5, generator=0)
    names = ("blocks.0.attn.hook_pattern", "blocks.0.mlp.hook_pre")
    whole = activations(model, tokens, *names)
    monkeypatch.setattr("counting_interp.models.cost.batch_size", lambda config: 7)
    for parts, expected in zip(activations(model, tokens, *names), whole, strict=True):
        assert_close(parts, expected)


def test_what_takes_long_says_how_long():
    config = CountingConfig.parse("lin", T=4096, L=4096, d=64, p=64)
    assert too_large(config, 8) is None
    minutes = too_large(config, 400)
    assert minutes is not None
    assert minutes.startswith("needs about ")
    assert " min on lin, T=4096, L=4096, d=64, p=64; give it a smaller one" in minutes
    memory = too_large(config, 0, numbers=2**30)
    assert memory is not None
    assert memory.startswith("needs 4 GB on lin, T=4096")


def test_the_largest_activation_stays_near_16_MB():
    paper = CountingConfig.parse("bos+sftm", T=64, L=30, d=128, p=128)
    assert batch_size(paper) == 1024
    assert affordable(paper, 3000) == 3000
    huge = CountingConfig.parse("lin", T=4096, L=4096, d=64, p=64)
    assert batch_size(huge) == 1
    assert affordable(huge, 3000) == 8
