"""From hidden units to logits, the loss and its gradient."""

from __future__ import annotations

from functools import partial

import numpy as np

from models.training.kernels.compiling import compiled
from models.training.kernels.exponential import exp_down

PADDING = -1e30  # bias of the classes that are padding: never the largest


@partial(compiled, fastmath=frozenset({"nnan", "nsz", "reassoc"}))
def largest(row):
    """The maximum, in an order that vectorises. Of a row with NaN, anything; its exponentials are NaN all the same."""
    highest = row[0]
    for c in range(1, len(row)):
        highest = max(highest, row[c])
    return highest


@compiled
def cross_entropy(logits, n, classes, targets, d_logits):
    """Mean cross-entropy over positions, and its gradient; each of n rows [class] stands for `repeats` positions.

    Columns beyond `classes` are padding: their gradient stays zero.
    """
    positions = 0
    for r in range(n):
        positions += targets.repeats[r]
    one_position = logits.dtype.type(1.0 / positions)
    zero = logits.dtype.type(0)
    loss = 0.0
    for r in range(n):
        weight = one_position * logits.dtype.type(targets.repeats[r])
        highest = largest(logits[r])
        total = logits.dtype.type(0)
        for c in range(logits.shape[1]):
            share = exp_down(logits[r, c] - highest) if c < classes else zero
            d_logits[r, c] = share
            total += share
        loss += weight * (np.log(total) - (logits[r, targets.labels[r]] - highest))
        scale = weight / total
        for c in range(logits.shape[1]):
            d_logits[r, c] *= scale
        d_logits[r, targets.labels[r]] -= weight
    return loss


@compiled
def count_right(logits, n, classes, targets):
    """The number of positions whose first largest logit is that of their label."""
    right = 0
    for r in range(n):
        best = 0
        for c in range(1, classes):
            if logits[r, c] > logits[r, best]:
                best = c
        if best == targets.labels[r]:
            right += targets.repeats[r]
    return right
