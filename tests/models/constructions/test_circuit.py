from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from counting_interp.models.constructions.circuit import boundaries, readout
from tests.helpers import assert_close


def test_boundaries_of_dot_sftm_as_printed_by_the_published_code():
    gammas = torch.tensor([k * math.e / (k * math.e + 10 - k) for k in range(1, 11)], dtype=torch.float64)
    printed = [0.318289, 0.471356, 0.591253, 0.687732, 0.767054, 0.833430, 0.889793, 0.938253, 0.980365]
    assert_close(boundaries((gammas, gammas))[0], torch.tensor(printed, dtype=torch.float64), 1e-6)


gaps = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 5)), min_size=2, max_size=12)


@given(gaps, st.booleans(), st.booleans())
def test_each_class_wins_on_its_range_by_at_least_one(gaps, falling, zero):
    edges = torch.tensor(gaps, dtype=torch.float64).flatten().cumsum(0)
    low, high = edges[::2], edges[1::2]
    if falling:
        low, high = -high, -low
    L = len(low)
    slopes, offsets = readout((low, high), L + zero)
    for k in range(L):
        for y in (low[k], high[k], (low[k] + high[k]) / 2):
            logits = slopes * y + offsets
            right = k + zero
            others = torch.cat([logits[:right], logits[right + 1 :]])
            assert logits[right] - others.max() >= 1 - 1e-6


def test_overlapping_ranges_are_refused_with_the_counts_and_values():
    low, high = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.5, 2.25, 3.0])
    with pytest.raises(ValueError, match=r"counts 2 and 3 overlap: \[1, 2.25\] and \[2, 3\]"):
        readout((low, high), 3)


def test_margin_is_half_the_smallest_gap():
    low, high = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.5, 2.75, 3.0])
    assert boundaries((low, high))[1] == 0.125
    assert boundaries((-high, -low))[1] == -0.125
