"""What the adversary knows: corners, counterexamples, and their descendants."""

from __future__ import annotations

import torch

from counting_interp.interp.proof import prove
from counting_interp.interp.proof.repair.training import BATCH, HardSequences, margins, two_token_sequences
from counting_interp.models import task
from tests.helpers import assert_close, small_model


def test_corners_are_all_multisets_of_at_most_two_tokens():
    rows = two_token_sequences(T=5, L=4)
    assert len(rows) == 5 * 4 * 3 // 2 + 5
    assert len({tuple(sorted(row)) for row in rows.tolist()}) == len(rows)
    assert max(len(set(row)) for row in rows.tolist()) == 2


def test_margins_say_whether_a_sequence_is_right():
    model = small_model("dot", T=5, L=4)
    rows = two_token_sequences(5, 4)
    right = (model.predict(rows) == task.histogram(rows)).all(1)
    assert ((margins(model, rows) > 0) == right).all()


def test_counterexamples_are_taken_over_once():
    model = small_model("bos", T=5, L=4)
    outcome = prove(model)
    adversary = HardSequences(model.config)
    new = adversary.learn(outcome)
    assert new == len(adversary.found) == len({row for cell in outcome.unproved for row in cell.sequences})
    assert adversary.learn(outcome) == 0


def test_the_hardest_come_first_and_their_offspring_is_kept():
    model = small_model("bos+sftm", T=5, L=4)
    adversary = HardSequences(model.config)
    rows = adversary.hardest(model, torch.Generator().manual_seed(0))
    values = margins(model, rows)
    assert (values.diff() >= 0).all()
    assert_close(values[0], min(margins(model, adversary.corners).min(), margins(model, adversary.bred).min()))
    assert len(adversary.bred)
    assert ((adversary.bred >= 0) & (adversary.bred < 5)).all()


def test_batches_are_whole_and_repeatable():
    adversary = HardSequences(small_model("lin", T=5, L=4).config)
    hardest = adversary.corners[:7]
    first, again = (adversary.batches(hardest, 3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert first.shape == (3 * BATCH, 4)
    assert (first == again).all()
