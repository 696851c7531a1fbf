"""Accuracy with a confidence interval that knows that questions about one list stand or fall together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

Z = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class ClusteredAccuracy:
    """A share of right answers, its 95 % interval, and how many questions about how many lists it rests on."""

    value: float
    low: float
    high: float
    questions: int
    lists: int

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def wilson(share: float, n: float) -> tuple[float, float]:
    """The Wilson score interval of a share seen in `n` independent trials; `n` need not be whole."""
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def clustered_accuracy(right: Sequence[bool], lists: Sequence[int]) -> ClusteredAccuracy:
    """Accuracy over questions, `lists[i]` being the list that question i is about.

    Ten questions about one list are not ten independent trials. The variance of the share is estimated from the lists'
    own totals, and the Wilson interval is that of as many independent questions as have this variance: at most all of
    them, at least one per list, and one per list where all answers agree and nothing can be estimated.
    """
    hits = np.asarray(right, dtype=float)
    _, cluster = np.unique(np.asarray(lists), return_inverse=True)
    n, k = len(hits), int(cluster.max()) + 1
    share = float(hits.mean())
    residuals = np.bincount(cluster, weights=hits - share)
    variance = float((residuals**2).sum()) / n**2 * (k / (k - 1) if k > 1 else 1.0)
    independent = share * (1 - share) / variance if variance > 0 else k
    return ClusteredAccuracy(share, *wilson(share, float(np.clip(independent, k, n))), n, k)
