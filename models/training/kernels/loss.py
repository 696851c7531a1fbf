"""From logits to the loss and its gradient, or to what is right."""

from __future__ import annotations

from counting_interp.models.training.kernels.compiling import inlined
from counting_interp.models.training.kernels.lanes import (
    LANES,
    add,
    add_times,
    divide,
    exp_down,
    fill,
    larger,
    largest_of,
    load,
    log,
    multiply,
    store,
    subtract,
    sum_of,
)

PADDING = -1e30  # bias of the classes that are padding: never the largest


@inlined
def cross_entropy(logits, n, targets, d_logits):
    """Mean cross-entropy over positions, and its gradient; each of n rows [class] stands for `repeats` positions.

    Classes that are padding have the exponential 0, and so the gradient 0.
    """
    weigh_rows(n, targets)
    for r in range(n):
        exponentials(logits[r], r, targets, d_logits[r])
    loss = fill(logits.dtype.type(0))
    for at in range(0, n, LANES):
        weight, total = load(targets.weights, at), load(targets.totals, at)
        loss = add_times(loss, weight, subtract(log(total), load(targets.chosen, at)))
        store(divide(weight, total), targets.totals, at)
    for r in range(n):
        d_row, scale = d_logits[r], fill(targets.totals[r])
        for at in range(0, len(d_row), LANES):
            store(multiply(load(d_row, at), scale), d_row, at)
        d_row[targets.labels[r]] -= targets.weights[r]
    return sum_of(loss)


@inlined
def weigh_rows(n, targets):
    """The share of each row in the mean; 0 for the rows up to a whole vector."""
    positions = 0
    for r in range(n):
        positions += targets.repeats[r]
    for r in range(n):
        targets.weights[r] = targets.repeats[r] / positions
    for r in range(n, -(-n // LANES) * LANES):
        targets.weights[r], targets.totals[r], targets.chosen[r] = 0, 1, 0


@inlined
def exponentials(row, r, targets, shares):
    """Of a row's logits, less the largest of them; their sum, and the logit of the label, less the largest."""
    most = load(row, 0)
    for at in range(LANES, len(row), LANES):
        most = larger(most, load(row, at))
    highest = largest_of(most)
    total = fill(row.dtype.type(0))
    for at in range(0, len(row), LANES):
        share = exp_down(subtract(load(row, at), fill(highest)))
        store(share, shares, at)
        total = add(total, share)
    targets.totals[r] = sum_of(total)
    targets.chosen[r] = row[targets.labels[r]] - highest


@inlined
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
