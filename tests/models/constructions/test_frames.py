"""Searched frames against frames whose best value is known, and the gradient against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad

from counting_interp.models.constructions.frames import MEASURES, _smooth, evaluate, search, simplex, welch_bound
from tests.helpers import assert_close


@pytest.mark.parametrize(
    ("d", "n", "best"), [(3, 6, 1 / math.sqrt(5)), (7, 28, 1 / 3), (6, 16, 1 / 3), (8, 9, 1 / 8), (31, 32, 1 / 31)]
)
def test_finds_the_known_equiangular_frames(d, n, best):
    frame = search(n, d, restarts=6, target=best + 1e-4)
    assert_close(frame.value, best, 1e-4)
    assert_close(frame.vectors.norm(dim=1), torch.ones(n), 1e-12)
    assert frame.value == evaluate(frame.vectors, "coherence") >= welch_bound(n, d) - 1e-9


def test_equiangular_lines_have_no_spread_of_squares():
    assert search(28, 7, "squares", restarts=3, target=1e-4).value < 1e-4


def test_a_simplex_has_no_spread():
    assert_close(evaluate(simplex(7), "band"), 0.0, 1e-12)
    assert_close(simplex(7) @ simplex(7).T, torch.eye(7, dtype=torch.float64) * 7 / 6 - 1 / 6, 1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_never_below_what_is_possible(measure):
    """A matrix with ones on the diagonal and +-mu elsewhere has rank >= n / (1 + (n - 1) mu^2)."""
    n, d = 12, 4
    rank = {"coherence": d, "band": d + 1, "squares": d * (d + 1) // 2}[measure]
    floor = math.sqrt(max(0, n / rank - 1) / (n - 1))
    assert search(n, d, measure, restarts=2).value >= floor - 1e-9


def test_the_seed_decides_and_more_starts_never_hurt():
    first, again = search(10, 4, seed=5, restarts=1), search(10, 4, seed=5, restarts=1)
    assert torch.equal(first.vectors, again.vectors)
    assert search(10, 4, seed=5, restarts=3).value <= first.value


def test_stops_at_the_target():
    first = search(6, 3, restarts=20, target=0.45)
    assert first.value < 0.45
    assert first.seed < search(6, 3, restarts=20).seed


@pytest.mark.parametrize("power", [1, 2])
def test_gradient(power):
    x = np.append(np.random.default_rng(0).standard_normal(5 * 3), 0.1)
    error = check_grad(lambda x: _smooth(x, 5, 3, 7.0, power)[0], lambda x: _smooth(x, 5, 3, 7.0, power)[1], x)
    assert error < 1e-5


def test_welch_bound_as_tabulated():
    for d, value in {
        6: 0.3739,
        7: 0.3394,
        8: 0.3111,
        11: 0.2482,
        12: 0.2319,
        16: 0.1796,
        29: 0.0578,
        30: 0.0464,
    }.items():
        assert abs(welch_bound(32, d) - value) < 6e-5
    assert welch_bound(5, 5) == 0


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="one of coherence, band, squares, got 'tight'"):
        search(5, 3, "tight")
    with pytest.raises(ValueError, match="got n=1, d=3"):
        search(1, 3)
