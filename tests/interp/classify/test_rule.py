"""The rule by itself: scores from slopes, axes from scores, labels from axes, in closed form."""

from __future__ import annotations

import pytest
import torch

from interp.classify.measure import Counting
from interp.classify.rule import is_solved, label_of, relative_transfer, scores, survivors


@pytest.mark.parametrize(
    ("slopes", "counted", "expected"),
    [
        ([(1.0, 0.0)], 1.0, (1.0, 0.0)),
        ([(0.0, 1.0)], 1.0, (0.0, 1.0)),
        ([(0.7, 0.3)], 1.0, (0.7, 0.3)),
        ([(1.0, 0.0), (0.0, 1.0)], 1.0, (0.5, 0.5)),  # one way for some tokens, the other way for others
        ([(0.8, 0.0)], 1.0, (1.0, 0.0)),  # a part is lost, as trained models lose it: what is left follows t
        ([(1.0, 0.0), (-1.0, 0.0)], 1.0, (1.0, 0.0)),  # tokens written in two ways
        ([(0.0, 0.0)], 1.0, (0.0, 1.0)),  # all is lost: it was gated by the identity
        ([(0.4, 0.4)] + [(0.0, 0.0)] * 4, 1.0, (0.0, 1.0)),  # next to all, as in ic-dot-compact
        ([(-0.6, 1.0)], 1.0, (0.0, 1.0)),  # a negative slope follows nobody
        ([(0.0, 0.0)], 0.0, (0.0, 0.0)),  # there was no count to follow in the first place
    ],
)
def test_scores(slopes, counted, expected):
    pairs = survivors(torch.tensor(slopes, dtype=torch.float64), counted).mean(0)
    assert scores(pairs, counted).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("both", "transfer", "few", "label"),
    [
        ((0.99, 0.01), 0.9, False, "RC"),
        ((0.99, 0.01), 0.1, False, "mixed"),
        ((0.99, 0.01), 0.5, False, "mixed"),
        ((0.99, 0.01), 0.2, True, "RC"),  # few directions, each shared by a group of tokens
        ((0.02, 0.98), 0.0, False, "IC"),
        ((0.02, 0.98), 0.9, True, "IC"),
        ((0.70, 0.30), 0.9, True, "mixed"),
        ((0.30, 0.70), 0.0, False, "mixed"),
    ],
)
def test_labels(both, transfer, few, label):
    assert label_of(True, torch.tensor(both), torch.tensor(transfer), few) == label
    assert label_of(False, torch.tensor(both), torch.tensor(transfer), few) == "unsolved"


@pytest.mark.parametrize(
    ("by_count", "knows_largest", "solved"),
    [
        ((1, 1, 1, 1, 1), True, True),
        ((1, 1, 0, 0, 0), True, False),  # small counts only
        ((0.6,) * 5, True, False),
        ((1, 1, 1, 0.4, 1), True, False),  # one count in between is not known
        ((1, 1, 1, 1, 0), True, True),  # the largest may be missing ...
        ((1, 1, 1, 1, 0), False, True),  # ... above all where no training data had it
        ((1, 1, 0), True, False),  # but not at L = 3, where it could be "small counts only"
        ((1, 1, 0), False, True),
    ],
)
def test_solved(by_count, knows_largest, solved):
    seen = torch.full((len(by_count),), 100.0, dtype=torch.float64)
    right = torch.tensor(by_count, dtype=torch.float64) * seen
    assert is_solved(Counting(float(right.sum() / seen.sum()), right, seen, knows_largest)) is solved


def test_transfer_of_a_model_that_nothing_moves_is_zero():
    assert relative_transfer(torch.tensor(0.05), torch.tensor(0.01)) == 0
    assert relative_transfer(torch.tensor(0.4), torch.tensor(0.8)) == pytest.approx(0.5)
