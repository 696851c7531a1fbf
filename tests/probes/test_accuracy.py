"""Intervals: against hand-worked and known values, and against the coverage they promise."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from counting_interp.probes.accuracy import mean_interval, measure, proportion_interval
from tests.helpers import assert_close, small_model
from tests.models.checkpoint.counting import counting_model


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (2997, 3000)])
def test_the_interval_of_a_proportion_is_clopper_and_pearsons(successes, n):
    expected = stats.binomtest(successes, n).proportion_ci(method="exact")
    assert_close(proportion_interval(successes, n), (expected.low, expected.high), 1e-12)


def test_all_right_leaves_the_same_doubt_by_both():
    """0.025^(1/3000) = 0.99877: nothing wrong in 3,000 sequences does not prove 99.9 %."""
    assert_close(mean_interval(1.0, 3000), (0.025 ** (1 / 3000), 1.0), 1e-12)
    assert_close(mean_interval(1.0, 3000), proportion_interval(3000, 3000), 1e-12)
    assert_close(mean_interval(0.0, 50), proportion_interval(0, 50), 1e-12)


@pytest.mark.parametrize("probability", [0.03, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n", [10, 200])
def test_the_interval_of_a_mean_covers_as_often_as_it_says_exactly(probability, n):
    """For coins, where the exact coverage is a finite sum; coins are the widest-spread quantity in [0, 1]."""
    covered = sum(
        stats.binom.pmf(k, n, probability)
        for k in range(n + 1)
        if mean_interval(k / n, n)[0] <= probability <= mean_interval(k / n, n)[1]
    )
    assert covered >= 0.95


def test_the_bounds_solve_the_equation_they_stand_for():
    mean, n = 0.7, 100
    for bound in mean_interval(mean, n):
        divergence = mean * math.log(mean / bound) + (1 - mean) * math.log((1 - mean) / (1 - bound))
        assert_close(divergence, math.log(40) / n, 1e-9)


def test_a_model_that_counts_and_one_that_does_not():
    right = measure(counting_model("bos"), n=400)
    assert (right.value, right.sequences, right.n_sequences) == (1.0, 1.0, 400)
    wrong = measure(small_model("lin"), "published", n=400, seed=3)
    assert wrong.value == pytest.approx(small_model("lin").accuracy(n=400, sampler="published", seed=3))
    assert wrong.interval[0] < wrong.value < wrong.interval[1]
    assert wrong.sequences_interval[0] <= wrong.sequences <= wrong.value
