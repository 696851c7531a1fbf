"""Which frame a construction needs, and in how few dimensions one is known: what `d < T` by coherence rests on.

Needs, as conditions on a measure of the frame (see `counting_interp.models.constructions.frames`):

    coherence < 1/(2L-3)       the paper's condition for overlaps added up: `lin`, and RC in `dot`, `bos`
    coherence < 1/sqrt(L-1)    the paper's condition where overlaps are squared: `dot` and `bos` with p = T
    band      < 1/(2L-3)       exact for overlaps added up, see below
    squares   < 1/(2L-3)       exact for squared overlaps

Exactly: let a position hold t, k times, and let g_s be what each filler s adds, 1 what t adds. The values for k lie in
k + (L-k) [m, M] with m, M the extremes of g over all tokens, and are apart from those for k + 1 if
k + (L-k) M < k + 1 + (L-k-1) m; the case k = 1 decides: (L-1) M - (L-2) m < 1. With c = (M+m)/2 and h = (M-m)/2 that is
h / (1 - c) < 1/(2L-3). The paper bounds |g|, that is, insists on c = 0, and so loses a dimension.

How few dimensions can do? Divide (g - c) by 1 - c: a T x T matrix with ones on the diagonal and at most mu < 1/(2L-3)
elsewhere has rank >= T / (1 + (T-1) mu^2) (trace^2 <= rank * sum of squares). Overlaps of vectors in R^d have rank d,
their squares rank d(d+1)/2, the subtracted constant adds at most one. `least_dimension` is that bound.
"""

from __future__ import annotations

import csv
import math
from functools import lru_cache

from counting_interp.data import frames
from counting_interp.models.constructions.frames import Frame, search

RESTARTS = 20


def least_dimension(T: int, measure: str, need: float) -> int:
    """No frame in fewer dimensions can have a measure below `need`."""
    rank = math.ceil(T / (1 + (T - 1) * need**2) - 1e-9)
    if measure == "coherence":
        return max(1, rank)
    if measure == "band":
        return max(1, rank - 1)
    return next(d for d in range(1, T + 1) if d * (d + 1) // 2 + 1 >= rank)


def known_dimension(T: int, measure: str, need: float) -> int:
    """The smallest d in which a frame below `need` was found: from the table, or searched now where it has no row."""
    for d in range(least_dimension(T, measure, need), T - 1):
        value = _survey().get((measure, T, d))
        if value is None:
            value = 1.02 * _quick(T, d, measure)  # with room for a bad start
        if value < 0.999 * need:
            return d
    return T - 1 if measure != "coherence" or need > 1 / (T - 1) else T


@lru_cache(maxsize=32)
def find_frame(T: int, d: int, measure: str, need: float, seed: int) -> Frame:
    """A frame below `need`; ValueError, with what was reached, if none is found."""
    frame = search(T, d, measure, seed=seed, restarts=RESTARTS, target=need)
    if frame.value >= need:
        raise ValueError(
            f"needs {T} vectors in R^{d} with {measure} below {need:.6g}; the best of {RESTARTS} starts has "
            f"{frame.value:.6g}. d={known_dimension(T, measure, need)} is known to do"
        )
    return frame


@lru_cache(maxsize=512)
def _quick(T: int, d: int, measure: str) -> float:
    return search(T, d, measure, restarts=2).value


@lru_cache(maxsize=1)
def _survey() -> dict[tuple[str, int, int], float]:
    """Best values found by scripts/frames.py."""
    with frames().open() as file:
        return {(row["measure"], int(row["n"]), int(row["d"])): float(row["value"]) for row in csv.DictReader(file)}
