"""IC in `dot+sftm` below T dimensions: the paper's high inverse temperature fails, one of order one works."""

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
