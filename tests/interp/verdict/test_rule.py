"""The rule by itself: cases from numbers, labels from cases, and what counts as solved."""

from __future__ import annotations

import pytest
import torch

from counting_interp.interp.verdict.measure import Counting, Measures
from counting_interp.interp.verdict.rule import CASES, Numbers, case_of, label_of, rule
from counting_interp.probes.cue_conflict import CueConflict, Flattening
from counting_interp.probes.readout import Readout


def numbers(kept: float, with_t: float, with_s: float, transfer: float, accuracy: float = 1.0) -> Numbers:
    return Numbers(accuracy, 1.0, kept, with_t, with_s, transfer)


@pytest.mark.parametrize(
    ("kept", "with_t", "with_s", "transfer", "case"),
    [
        (0.0, 1.0, 0.0, 1.0, "relation"),
        (0.0, 0.9, 0.0, 0.4, "relation"),  # the swap says it
        (0.0, 0.2, 0.0, 1.0, "relation"),  # the swap leads out of range; displacements say it
        (0.05, 0.0, 0.1, 0.3, "gated"),
        (0.05, 0.22, 0.22, 0.0, "gated"),  # ic-dot-coherence
        (1.0, 0.0, 1.0, 0.0, "inventory"),
        (0.6, -0.1, 0.55, 0.0, "inventory"),  # dot+sftm: attention helps
        (0.66, 0.31, 0.63, 0.24, "hybrid"),
        (0.5, 0.5, 0.5, 0.5, "hybrid"),
        (0.34, 0.69, 0.26, 0.67, "hybrid"),
        (1.0, 1.0, 0.0, 1.0, "redundant"),
        (1.0, 0.1, 0.1, 0.0, "unreadable"),
        (0.0, 0.0, 0.9, 0.0, "contradictory"),
    ],
)
def test_cases(kept, with_t, with_s, transfer, case):
    assert case_of(numbers(kept, with_t, with_s, transfer)) == case
    assert label_of(case) == {"relation": "RC", "inventory": "IC"}.get(case, "mixed")


def test_no_inventory_without_a_third_of_the_count_and_no_relation_where_all_is_left():
    grid = [x / 10 for x in range(-3, 14)]
    for kept in grid:
        for with_t in grid:
            for with_s in grid:
                for transfer in (0.0, 0.5, 1.0):
                    label = label_of(case_of(numbers(kept, with_t, with_s, transfer)))
                    assert not (label == "IC" and kept < 1 / 3)
                    assert not (label == "RC" and kept > 1 / 3)


def test_every_case_has_words():
    assert set(CASES) >= {"relation", "inventory", "gated", "hybrid"}
    assert all(len(words.split()) > 4 for words in CASES.values())


def made_up(accuracy: float, kept: float, with_t: float, with_s: float, transfer: float) -> Measures:
    """Measures that every pair of tokens agrees on; answers in hundredths, since they are whole numbers."""
    cells = torch.tensor([(i, j) for i in range(1, 5) for j in range(1, 5) if i + j <= 5])
    i, j = (100 * cells).double().T
    pairs = torch.tensor([[0, 1], [1, 2], [2, 0]])

    def answers(values: torch.Tensor) -> torch.Tensor:
        return values.round().long().expand(3, -1)

    shared = (0, 5, pairs, cells)
    n, ones = torch.full((5,), 100.0, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    flattened = Flattening(*shared, answers(kept * i), answers(i))
    return Measures(
        counting=Counting("paper", accuracy * torch.ones(200, dtype=torch.float64), accuracy * n, n),
        conflicts=(CueConflict(*shared, answers(with_t * i + with_s * j), answers(i)),),
        flattenings=(flattened,),
        flattened=flattened,
        readout=Readout(3, accuracy, torch.arange(2), ones[:2], pairs, transfer * ones, ones, None, None, None, None),
    )


def test_numbers_are_read_off_the_measures():
    ruling = rule(made_up(1.0, 0.4, 0.6, 0.3, 0.5), seed=0)
    found = ruling.numbers
    assert (found.kept, found.with_t, found.with_s, found.transfer) == pytest.approx((0.4, 0.6, 0.3, 0.5))
    assert ruling.intervals["kept"] == pytest.approx((0.4, 0.4))
    assert (ruling.label, ruling.case) == ("mixed", "hybrid")


def test_confidence_falls_towards_a_threshold():
    far, near = rule(made_up(1.0, 0.0, 1.0, 0.0, 1.0), seed=0), rule(made_up(1.0, 0.24, 1.0, 0.0, 1.0), seed=0)
    assert far.label == near.label == "RC"
    assert far.confidence is not None
    assert near.confidence is not None
    assert far.confidence > 0.99
    assert 0.4 < near.confidence < 0.8


def test_below_the_threshold_unanimous_evidence_is_a_lean_and_there_is_no_confidence():
    ruling = rule(made_up(0.85, 1.0, 0.0, 1.0, 0.0), seed=0)
    assert (ruling.label, ruling.case, ruling.leans, ruling.confidence) == ("unsolved", None, "IC", None)
    assert rule(made_up(0.85, 0.0, 0.0, 0.1, 0.2), seed=0).leans == "gated"
    assert rule(made_up(0.85, 0.45, 0.3, 0.3, 0.2), seed=0).leans is None
    assert rule(made_up(0.95, 1.0, 0.0, 1.0, 0.0), seed=0).leans is None
