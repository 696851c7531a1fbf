"""IC in `dot+sftm` below T dimensions needs an inverse temperature of order one; hybrids are planted as claimed.

After a cue conflict the read-out of a hybrid follows w i + (1 - w)(j + 1).
"""

from __future__ import annotations

import math

import pytest
import torch

from counting_interp.models.constructions import construct
from counting_interp.models.constructions.circuit import Circuit, Size, assemble
from counting_interp.models.constructions.inventory import needed_band, word_length
from counting_interp.models.constructions.relation import bits


@pytest.mark.parametrize("kappa", [0.5, 1, 2, 4, 8, 16, 25.2, 50, 200])
@pytest.mark.parametrize(("T", "L"), [(32, 10), (7, 5)])
def test_the_papers_words_do_not_count_at_any_inverse_temperature(kappa, T, L):
    words = bits(T, 1, math.ceil(math.log2(T + 1)))
    words = words / words.norm(dim=1, keepdim=True)
    circuit = Circuit(words, W_in=words.T, compare=kappa * torch.eye(words.shape[1], dtype=torch.float64))
    size = Size(T, L, words.shape[1], T)
    with pytest.raises(ValueError, match=r"overlap|no bias silences"):
        assemble(circuit, "dot+sftm", size, n_classes=None, dtype="float64", mechanism={"label": "IC"})


def test_tolerances_as_documented():
    for L, tolerance in {5: 0.69, 10: 0.44, 15: 0.30, 30: 0.12}.items():
        assert abs(needed_band(L) - tolerance) < 0.006
    assert needed_band(13) > 1 / 3 > needed_band(14)  # binary words with two ones: up to L = 13


def test_number_of_binary_words():
    assert [word_length(T) for T in (3, 28, 32, 36, 37)] == [3, 8, 9, 9, 10]


def test_the_inverse_temperature_is_of_order_one():
    for name in ("ic-dot+sftm-compact", "ic-dot+sftm-binary"):
        assert 0.5 < construct(name).metadata["mechanism"]["inverse_temperature"] < 5


@torch.no_grad()
def conflict_value(model, i: int, j: int) -> float:
    """The read-out scalar at a position holding token 0 (i copies) whose residual path holds token 1 (j copies)."""
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
