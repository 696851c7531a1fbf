"""The planted mixture is what it claims to be: after a cue conflict the read-out follows w i + (1 - w)(j + 1)."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models.constructions import construct


@torch.no_grad()
def conflict_value(model, i: int, j: int) -> float:
    """The read-out scalar at a position holding token 0 (i copies) whose self path says token 1 (j copies)."""
    L = model.config.L
    tokens = torch.tensor([[0] * i + [1] * j + list(range(2, 2 + L - i - j))])
    _, cache = model.run_with_cache(tokens)
    here = int(model.config.has_bos)  # the first position after `$`
    mixed = cache["resid_mid", 0][0, here]
    share = cache["pattern", 0][0, 0, here, here]
    swapped = mixed + (1 + share) * (model.W_E[1] - model.W_E[0])
    mlp = model.blocks[0].mlp
    return float((swapped @ mlp.W_in + mlp.b_in).relu().sum())


@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_conflict_follows_the_weight(name, weight):
    model = construct(name, 32, 10, weight=weight)
    for i in range(1, 6):
        for j in range(1, 5):
            expected = weight * i + (1 - weight) * (j + 1)
            assert abs(conflict_value(model, i, j) - expected) < 0.3, (i, j)


@pytest.mark.parametrize(("weight", "label"), [(0.0, "IC"), (0.4, "mixed"), (1.0, "RC")])
def test_label_follows_the_weight(weight, label):
    assert construct("hybrid-dot", 8, 5, weight=weight).metadata["mechanism"]["label"] == label


@pytest.mark.parametrize(("option", "value"), [("weight", 1.5), ("weight", -0.1), ("leak", 0.5)])
def test_refuses_senseless_options(option, value):
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        construct("hybrid-dot", 8, 5, **{option: value})
