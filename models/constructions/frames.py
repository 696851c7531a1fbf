"""Frames: n unit vectors in d < n dimensions that overlap as little, or as evenly, as possible.

The measure of a frame depends on the construction:

    coherence   max |<v_t, v_s>|, at least Welch's sqrt((n - d) / (d (n - 1)))
    band        half the width of the band in which the overlaps lie, divided by 1 minus its middle. A constant added to
                all overlaps is no obstacle to counting: each sequence has L tokens, so it adds the same to each sum.
                0 for a regular simplex, n = d + 1.
    squares     the same for the squared overlaps. 0 for equiangular lines.

`search` descends on a smooth version of the measure: a log-sum-exp of +-(h(<v_t, v_s>) - c) / (1 - c), where the middle
c is free for the bands. L-BFGS sharpens it in stages, in which the stiffness doubles. A soft start matters: from
stiffness 3, 15 of 16 starts reach the equiangular 16 lines in R^6; from stiffness 40 none does.

A construction with d < T needs a frame with:

    coherence < 1/(2L-3)       the paper's condition for overlaps added up: `lin`, and RC in `dot`, `bos`
    coherence < 1/sqrt(L-1)    the paper's condition where overlaps are squared: `dot` and `bos` with p = T
    band      < 1/(2L-3)       exact for overlaps added up, see below
    squares   < 1/(2L-3)       exact for squared overlaps

Let a position hold t, k times. Let each filler s add g_s, and t add 1. The values for k lie in k + (L-k) [m, M]
with m, M the extremes of g over all tokens. They are apart from those for k + 1 if k + (L-k) M < k + 1 + (L-k-1) m. The
case k = 1 decides: (L-1) M - (L-2) m < 1. With c = (M+m)/2 and h = (M-m)/2 that is h / (1 - c) < 1/(2L-3). The paper
bounds |g|, that is, it sets c = 0, and so loses a dimension.

`least_dimension` is a lower bound. Divide g - c by 1 - c: a T x T matrix with ones on the diagonal and at most
mu < 1/(2L-3) elsewhere. Its rank is at least T / (1 + (T-1) mu^2), since trace^2 <= rank * sum of squares. Overlaps of
vectors in R^d have rank d, their squares rank d(d+1)/2, and the subtracted constant adds at most one.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from counting_interp.data import frames as survey

RESTARTS = 20
MEASURES = ("coherence", "band", "squares")
_FIRST_STIFFNESS, _STAGES, _STEPS = 3.0, 16, 150


@dataclass(frozen=True)
class Frame:
    """Unit vectors, and the value of the measure for which they were searched."""

    vectors: Float[Tensor, "token d_model"]
    measure: str
    value: float
    seed: int


def welch_bound(n: int, d: int) -> float:
    """The smallest coherence that n unit vectors in R^d could have."""
    return math.sqrt((n - d) / (d * (n - 1))) if d < n else 0.0


def evaluate(vectors: Float[Tensor, "token d_model"], measure: str) -> float:
    """The measure of a set of unit vectors, in float64."""
    overlaps = vectors.double() @ vectors.double().T
    off = overlaps[~torch.eye(len(vectors), dtype=torch.bool)]
    if measure == "coherence":
        return float(off.abs().max())
    off = off.square() if measure == "squares" else off
    middle, half = float(off.max() + off.min()) / 2, float(off.max() - off.min()) / 2
    return half / (1 - middle) if middle < 1 else math.inf


def simplex(n: int) -> Float[Tensor, "token d_model"]:
    """n unit vectors in R^(n-1) with all overlaps -1/(n-1)."""
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    _, _, basis = torch.linalg.svd(centred)
    vectors = centred @ basis[: n - 1].T
    return vectors / vectors.norm(dim=1, keepdim=True)


def search(
    n: int,
    d: int,
    measure: str = "coherence",
    *,
    seed: int = 0,
    restarts: int = 8,
    target: float = 0.0,
) -> Frame:
    """The best frame of several starts, or the first below `target`. The same seed gives the same frame."""
    if measure not in MEASURES:
        raise ValueError(f"the measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    if n < 2 or d < 1:
        raise ValueError(f"a frame needs at least 2 vectors in at least 1 dimension, got n={n}, d={d}")
    if d >= n and measure == "coherence":
        return Frame(torch.eye(n, d, dtype=torch.float64), measure, 0.0, seed)
    if d >= n - 1:
        vectors = torch.nn.functional.pad(simplex(n), (0, d - (n - 1)))
        return Frame(vectors, measure, evaluate(vectors, measure), seed)
    best: Frame | None = None
    for start in range(restarts):
        vectors = _descend(n, d, measure, seed + start)
        value = evaluate(vectors, measure)
        if best is None or value < best.value:
            best = Frame(vectors, measure, value, seed + start)
        if best.value < target:
            break
    assert best is not None, "restarts is at least 1"
    return best


def _descend(n: int, d: int, measure: str, seed: int) -> Float[Tensor, "token d_model"]:
    rng = np.random.default_rng(seed)
    centred = measure != "coherence"
    x = np.append(rng.standard_normal(n * d), 0.05)  # the vectors, and the middle of the band
    bounds = [(None, None)] * (n * d) + [(-0.99, 0.99) if centred else (0.0, 0.0)]
    if not centred:
        x[-1] = 0.0
    power = 2 if measure == "squares" else 1
    for stage in range(_STAGES):
        x = minimize(
            _smooth,
            x,
            args=(n, d, _FIRST_STIFFNESS * 2**stage, power),
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "maxcor": 20},
        ).x
    vectors = torch.from_numpy(x[:-1].reshape(n, d).copy())
    return vectors / vectors.norm(dim=1, keepdim=True)


def _smooth(x: np.ndarray, n: int, d: int, stiffness: float, power: int) -> tuple[float, np.ndarray]:
    """Smooth version of the measure and its gradient; x holds the vectors (any length) and the middle."""
    rows, middle = x[:-1].reshape(n, d), x[-1]
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / length
    overlaps = unit @ unit.T
    deviations = (overlaps**power - middle) / (1 - middle)
    np.fill_diagonal(deviations, 0.0)
    top = np.abs(deviations).max()
    above, below = np.exp(stiffness * (deviations - top)), np.exp(stiffness * (-deviations - top))
    np.fill_diagonal(above, 0.0)
    np.fill_diagonal(below, 0.0)
    total = (above + below).sum()
    pull = (above - below) / total  # derivative by each deviation
    by_overlap = pull / (1 - middle) * (power * overlaps ** (power - 1))
    by_unit = 2 * by_overlap @ unit
    by_rows = (by_unit - (by_unit * unit).sum(1, keepdims=True) * unit) / length
    by_middle = (pull * (deviations - 1)).sum() / (1 - middle)
    return float(top + np.log(total) / stiffness), np.append(by_rows.ravel(), by_middle)


def least_dimension(T: int, measure: str, need: float) -> int:
    """No frame in fewer dimensions can have a measure below `need`."""
    rank = math.ceil(T / (1 + (T - 1) * need**2) - 1e-9)
    if measure == "coherence":
        return max(1, rank)
    if measure == "band":
        return max(1, rank - 1)
    return next(d for d in range(1, T + 1) if d * (d + 1) // 2 + 1 >= rank)


def known_dimension(T: int, measure: str, need: float) -> int:
    """The smallest d in which a frame below `need` was found, from the table, or by a search if it has no row."""
    for d in range(least_dimension(T, measure, need), T - 1):
        value = _survey().get((measure, T, d))
        if value is None:
            value = 1.02 * _quick(T, d, measure)  # with room for a bad start
        if value < 0.999 * need:
            return d
    return T - 1 if measure != "coherence" or need > 1 / (T - 1) else T


@lru_cache(maxsize=32)
def find_frame(T: int, d: int, measure: str, need: float, seed: int) -> Frame:
    """A frame below `need`; a ValueError with the best value if none is found."""
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
    with survey().open() as file:
        return {(row["measure"], int(row["n"]), int(row["d"])): float(row["value"]) for row in csv.DictReader(file)}
