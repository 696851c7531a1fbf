"""From one scalar to classes: the second half of the feed-forward layer (paper, Sec. "Mapping a scalar ...").

Given are disjoint ranges [low_k, high_k] of a scalar y, one per count k. Put a decision boundary halfway between the
ranges of k and k + 1, and let logit c be a line s_c y + o_c whose slopes rise (or fall, where y falls with the count)
from class to class by the same step, each line crossing its neighbour's at their boundary. The upper envelope of such
lines is convex, so class c wins exactly between its two boundaries. The step is chosen such that the right logit leads
by at least 1. A class for count 0, as the published layout has, wins only below the range of count 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Ranges = tuple[Float[Tensor, "count"], Float[Tensor, "count"]]


def rises(ranges: Ranges) -> bool:
    """Whether y grows with the count; ValueError if the ranges of two neighbouring counts overlap."""
    low, high = ranges
    if bool((high[:-1] < low[1:]).all()):
        return True
    if bool((high[1:] < low[:-1]).all()):
        return False
    gaps = torch.maximum(low[1:] - high[:-1], low[:-1] - high[1:])
    k = int(gaps.argmin()) + 1
    raise ValueError(
        f"the values for counts {k} and {k + 1} overlap: "
        f"[{low[k - 1]:.6g}, {high[k - 1]:.6g}] and [{low[k]:.6g}, {high[k]:.6g}]"
    )


def boundaries(ranges: Ranges) -> Float[Tensor, "boundary"]:
    """The L - 1 decision boundaries, halfway between neighbouring ranges."""
    low, high = ranges
    return (high[:-1] + low[1:]) / 2 if rises(ranges) else (low[:-1] + high[1:]) / 2


def margin(ranges: Ranges) -> float:
    """Half the smallest gap between the ranges of neighbouring counts: how far y may move before a class changes."""
    low, high = ranges
    gaps = low[1:] - high[:-1] if rises(ranges) else low[:-1] - high[1:]
    return float(gaps.min() / 2)


def readout(ranges: Ranges, n_classes: int) -> tuple[Float[Tensor, "class"], Float[Tensor, "class"]]:
    """Slopes and offsets of the logits, such that class c wins for its count: W_out (the same for each hidden unit)
    and b_out.

    Args:
        ranges: smallest and largest y for the counts 1..L.
        n_classes: L, or L + 1 with a class for count 0 in front.
    """
    low, high = ranges
    L = len(low)
    sign = 1.0 if rises(ranges) else -1.0
    step = sign / margin(ranges)
    edges = boundaries(ranges)
    if n_classes == L + 1:
        first = low[:1] - margin(ranges) if sign > 0 else high[:1] + margin(ranges)
        edges = torch.cat([first, edges])
    slopes = step * (torch.arange(n_classes, dtype=low.dtype) - (n_classes - 1) / 2)
    offsets = torch.cat([torch.zeros(1, dtype=low.dtype), -step * edges.cumsum(0)])
    return slopes, offsets - offsets.mean()
