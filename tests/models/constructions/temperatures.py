"""The paper's inverse temperatures, against which those of the constructions are held."""

from __future__ import annotations

import math


def binary_gap(width: int) -> float:
    """1 minus the largest overlap of two different normalised binary words of this width."""
    return 1 - math.sqrt(1 - 1 / width)


def arc_gap(T: int) -> float:
    """The same for the quarter circle of the remark on d = 4."""
    return 1 - math.sqrt(T * T - 1) / T


def smallest_temperature(gap: float, L: int) -> float:
    """The paper's smallest inverse temperature: the root kappa > 0 of (L-1) e^(kappa (1-gap)) - e^kappa - (L-2).

    Divided by e^kappa, the expression is positive just above 0 and falls to -1: bisection.
    """
    low, high = 1e-9, 1.0

    def expression(kappa: float) -> float:
        return (L - 1) * math.exp(-kappa * gap) - 1 - (L - 2) * math.exp(-kappa)

    while expression(high) > 0:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if expression(middle) > 0 else (low, middle)
    return high
