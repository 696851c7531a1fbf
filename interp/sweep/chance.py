"""How many cells two tables that agree would call different.

A deviation is judged by standard errors that are themselves estimated, from five runs and from one or two. Where these
happen to lie close together the tolerance is too narrow, so three standard errors leave out far more than the 0.27 %
of a normal distribution: about 6 % with two runs. Here the comparison is made many times with both sides drawn from
one normal distribution.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from counting_interp.interp.sweep.compare import REFERENCE_RUNS, ComparedCell, tolerance

DRAWS = 20_000


def within_by_chance(cell: ComparedCell) -> float:
    """The probability that a cell lies within its tolerance if both sides are the same experiment: as many runs of one
    normal distribution, with the standard deviation that both sides together have, read with the error of reading."""
    freedom = REFERENCE_RUNS - 1, cell.runs - 1
    variance = (cell.std_reference**2 * freedom[0] + (cell.std or 0.0) ** 2 * freedom[1]) / sum(freedom)
    return _within(math.sqrt(variance), cell.runs, cell.reading_error)


@cache
def _within(std: float, runs: int, reading_error: float) -> float:
    (their_mean, their_std), (our_mean, our_std), (read, _) = _standard(runs)
    deviation = std * (our_mean - their_mean) + reading_error * read
    own = None if our_std is None else std * our_std
    return float((abs(deviation) <= tolerance(std * their_std, own, runs, reading_error)).mean())


@cache
def _standard(runs: int) -> list[tuple[Any, Any]]:
    """Means and standard deviations of many draws of the standard normal distribution, the same each time: of as many
    as they have runs, of as many as we have, and of one, for the reading."""
    rng = np.random.default_rng(0)
    drawn = [rng.standard_normal((DRAWS, number)) for number in (REFERENCE_RUNS, runs, 1)]
    return [(one.mean(1), one.std(1, ddof=1) if one.shape[1] > 1 else None) for one in drawn]
