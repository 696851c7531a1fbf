"""Verdicts against the truth: every sequence of small models is run."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from counting_interp.interp.proof import Certificate, Counterexample, Undecided, prove, prover
from counting_interp.models import CountingTransformer, task
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import CATALOGUE, construct
from tests.helpers import small_model
from tests.interp.proof.examples import behind_identity, broken, fitted_model, truth, uniform_positions, wrong_cells

# T, L, numbers of hidden units: from hopeless to enough
SIZES = {"lin": (3, 3, (12, 40, 90)), "lin+sftm": (3, 3, (12, 30, 60))}
DOT_SIZES = (4, 4, (20, 45, 70))


def check(model, outcome, max_count=None) -> None:
    """The verdict, the margins and the sequence are what running everything says."""
    actual = truth(model, max_count)
    if isinstance(outcome, Certificate):
        assert actual.right
        assert outcome.proved_margin <= actual.margin + 1e-9
        assert actual.margin <= outcome.margin + 1e-9
        assert outcome.proved_cells == outcome.cells
    else:
        assert isinstance(outcome, Counterexample), str(outcome)
        assert not actual.right
        tokens = torch.tensor(outcome.sequence)
        assert model.predict(tokens).tolist() == list(outcome.answers)
        assert task.histogram(tokens).tolist() == list(outcome.true_counts)
        assert outcome.answer != outcome.count
        assert outcome.margin < 0


METHODS = [(variant, False) for variant in VARIANTS]
METHODS += [("lin alike", False), ("lin+sftm alike", False)]
METHODS += [(variant, True) for variant in VARIANTS if not variant.startswith("lin")]  # never enumerated


@pytest.mark.parametrize(("variant", "enumerating"), METHODS)
def test_verdicts_agree_with_running_every_sequence(variant, enumerating, monkeypatch):
    if not enumerating:
        monkeypatch.setattr(prover, "enumerable", lambda config, counts: False)
    T, L, widths = SIZES.get(variant.removesuffix(" alike"), DOT_SIZES)
    verdicts = []
    for seed in range(4):
        for p in widths:
            model = fitted_model(variant, T=T, L=L, d=5, p=p, seed=seed, extra_class=seed % 2 == 1)
            for candidate in (model, broken(model, seed, 0.3)):
                outcome = prove(candidate, seconds=30)
                check(candidate, outcome)
                assert outcome.cells == T * L * (1 if uniform_positions(candidate) else L)
                verdicts.append(outcome.verdict)
    assert {"certified", "refuted"} == set(verdicts)  # both sides of the border were visited


@pytest.mark.parametrize("variant", ["lin", "lin+sftm", "dot", "bos+sftm"])
def test_every_wrong_cell_comes_with_sequences_that_lie_in_it(variant):
    T, L, widths = SIZES.get(variant, DOT_SIZES)
    for model in (
        fitted_model(variant, T=T, L=L, d=5, p=widths[0], seed=0),
        broken(construct("rc-dot", T=4, L=4), 1, 5.0),
    ):
        outcome = prove(model, seconds=30)
        assert isinstance(outcome, Counterexample)
        assert len(outcome.unproved) == outcome.cells - outcome.proved_cells
        wrong = [cell for cell in outcome.unproved if cell.wrong]
        assert len(wrong) == outcome.wrong_cells
        assert "unproved" not in outcome.to_dict()
        if model.config.mixing != "lin":
            assert {(cell.token, cell.count) for cell in wrong} == wrong_cells(model)
        for cell in wrong:
            assert 1 <= len(set(cell.sequences)) == len(cell.sequences) <= 4
            rows = torch.tensor(cell.sequences)
            counts, answers = task.histogram(rows), model.predict(rows)
            where = (rows == cell.token) & (counts == cell.count)
            assert where.any(1).all()
            assert (answers != counts)[0][where[0]].any()  # the lowest margin is that of a wrong answer
            if cell.position is not None:
                assert where[:, cell.position].all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_untrained_models_are_refuted(variant):
    for seed in range(5):
        model = small_model(variant, seed=seed, T=5, L=4)
        outcome = prove(model, seconds=30)
        check(model, outcome)
        assert isinstance(outcome, Counterexample)


@pytest.mark.parametrize("name", CATALOGUE)
def test_constructions_are_certified(name):
    outcome = prove(construct(name, T=8, L=5))
    assert isinstance(outcome, Certificate), str(outcome)
    check_intervals(outcome, one_scale=name.startswith("rc"))


@pytest.mark.parametrize("name", ["rc-bos", "rc-bos+sftm-circle", "ic-lin", "ic-dot-compact", "hybrid-bos+sftm"])
def test_constructions_at_the_size_of_the_paper_are_certified_in_float32(name):
    outcome = prove(construct(name, T=32, L=10))
    assert isinstance(outcome, Certificate), str(outcome)
    assert outcome.precision == "float32"
    assert set(outcome.methods) == {"corners"}


def test_what_float32_cannot_promise_is_promised_in_float64():
    """Attention scores of thousands: their rounding alone may exceed the margin in float32."""
    outcome = prove(construct("rc-bos+sftm-arc"))
    assert isinstance(outcome, Certificate)
    assert outcome.precision == "float64"


def check_intervals(outcome: Certificate, one_scale: bool) -> None:
    """Margins exceed rounding; where one quantity decides, its intervals are in order and, on one scale, apart."""
    assert outcome.rounding < outcome.proved_margin
    assert [entry.count for entry in outcome.margins] == list(range(1, outcome.counts + 1))
    if outcome.quantity is None:
        return
    ends = sorted(
        (entry.low, entry.high) for entry in outcome.margins if entry.low is not None and entry.high is not None
    )
    assert len(ends) == outcome.counts
    assert all(low <= high for low, high in ends)
    if one_scale:
        assert all(before[1] < after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("name", ["rc-bos", "rc-dot", "rc-bos+sftm", "ic-lin", "ic-dot+sftm", "hybrid-dot"])
def test_breaking_one_weight_gives_a_true_counterexample_or_a_true_proof(name):
    model = construct(name, T=4, L=4)
    verdicts = []
    for seed in range(12):
        candidate = broken(model, seed, 2.0)
        outcome = prove(candidate, seconds=30)
        if isinstance(outcome, Undecided):  # a tie, or a margin within rounding: no verdict is the right one
            assert abs(truth(candidate).margin) < 1e-5
            continue
        check(candidate, outcome)
        verdicts.append(outcome.verdict)
    assert "refuted" in verdicts


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_layer_models_are_refuted_by_running_them(variant):
    model = small_model(variant, 2, T=4, L=4)
    outcome = prove(model, seconds=30)
    assert isinstance(outcome, Counterexample)
    check(model, outcome)


@pytest.mark.parametrize("name", ["ic-lin", "rc-dot", "rc-bos"])
def test_two_layer_models_are_certified_by_enumeration(name):
    model = behind_identity(construct(name, T=4, L=4, p=16))
    outcome = prove(model, seconds=30)
    check(model, outcome)
    assert isinstance(outcome, Certificate)
    assert outcome.precision == "float32"
    assert outcome.methods == {"enumeration": 16}
    assert outcome.margin == pytest.approx(outcome.proved_margin)


def test_two_layer_models_too_large_to_enumerate_stay_undecided_unless_found_wrong():
    outcome = prove(behind_identity(construct("rc-dot", T=16, L=10, p=64)), seconds=4)
    assert isinstance(outcome, Undecided)
    assert outcome.margin is not None
    assert outcome.margin > 0
    assert "multisets" in outcome.reason


def test_counts_beyond_those_asked_about_are_left_aside():
    model = construct("rc-dot", T=5, L=4, dtype="float64")
    with torch.no_grad():
        model.blocks[0].mlp.b_out[-1] -= 1e6  # count L is never answered
    refuted = prove(model)
    assert isinstance(refuted, Counterexample)
    assert refuted.count == 4
    assert len(set(refuted.sequence)) == 1
    limited = prove(model, max_count=3)
    assert isinstance(limited, Certificate)
    assert [entry.count for entry in limited.margins] == [1, 2, 3]
    check(model, limited, max_count=3)


def test_an_undecided_verification_says_how_far_it_came():
    model = fitted_model("bos", T=4, L=4, d=5, p=80, seed=0)
    outcome = prove(model, seconds=1e-9)
    assert isinstance(outcome, Undecided)
    assert 0 <= outcome.share < 1
    assert "--time" in str(outcome)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [1e30, 1e-30, 0.0])
def test_absurd_weights_are_refuted_without_a_warning(variant, size):
    model = small_model(variant, T=5, L=4, dtype="float32")
    state = {name: weight * size for name, weight in model.state_dict().items()}
    model = CountingTransformer(model.config, weights=state)
    outcome = prove(model, seconds=30)
    assert isinstance(outcome, Counterexample), str(outcome)
    assert model.predict(torch.tensor(outcome.sequence)).tolist() == list(outcome.answers)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"max_count": 0}, "between 1 and L=10, got 0"), ({"max_count": 11}, "got 11"), ({"seconds": 0}, "positive")],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        prove(construct("rc-dot"), **arguments)
