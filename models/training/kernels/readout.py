"""From logits to the loss and its gradient, or to what is right."""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled
from models.training.kernels.lanes import (
    LANES,
    add,
    exp_down,
    fill,
    larger,
    largest_of,
    load,
    multiply,
    store,
    subtract,
    sum_of,
)

PADDING = -1e30  # bias of the classes that are padding: never the largest


@compiled
def cross_entropy(logits, n, classes, targets, d_logits):
    """Mean cross-entropy over positions, and its gradient; each of n rows [class] stands for `repeats` positions.

    Columns beyond `classes` are padding: their gradient is zero.
    """
    width = logits.shape[1]
    zero = logits.dtype.type(0)
    positions = 0
    for r in range(n):
        positions += targets.repeats[r]
    one_position = logits.dtype.type(1.0 / positions)
    loss = 0.0
    for r in range(n):
        row, d_row, label = logits[r], d_logits[r], targets.labels[r]
        weight = one_position * logits.dtype.type(targets.repeats[r])
        most = load(row, 0)
        for at in range(LANES, width, LANES):
            most = larger(most, load(row, at))
        highest = largest_of(most)
        sums = fill(zero)
        for at in range(0, width, LANES):
            share = exp_down(subtract(load(row, at), fill(highest)))
            store(share, d_row, at)
            sums = add(sums, share)
        total = sum_of(sums)
        loss += weight * (np.log(total) - (row[label] - highest))
        scale = fill(weight / total)
        for at in range(0, width, LANES):
            store(multiply(load(d_row, at), scale), d_row, at)
        for c in range(classes, width):
            d_row[c] = zero
        d_row[label] -= weight
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
