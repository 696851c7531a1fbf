"""An epoch of training, and evaluation: the order in which the parts are called.

`data` are sequences as multisets (see `sampling`), given from outside: the same kernels train on fresh sequences and
on those of a test. `gradient` keeps that of the last step. `first` and `second` are the layers; where there is no
second one it is None, and numba leaves out all that belongs to it.

The loss and Adam, as torch computes them, come first; Adam is one pass over all weights.
"""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels import blocks
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
    root,
    store,
    subtract,
    sum_of,
)
from counting_interp.models.training.kernels.mixers import scale
from counting_interp.models.training.kernels.plan import (
    gather,
    number_tokens,
    plan_labels,
    plan_places,
    plan_rows,
    plan_tokens,
    scatter,
)
from counting_interp.util.compiled import compiled, inlined

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


@inlined
def adam(weights, gradient, moments, begin, step, rate, course):
    """Update flat `weights` from index `begin` on, and the two moments, in place; `step` counts from 1.

    All are whole vectors: `begin` and the length are multiples of LANES.
    """
    real = weights.dtype.type
    first, second = moments
    keep1, new1 = fill(real(course.beta1)), fill(real(1.0 - course.beta1))
    keep2, new2 = fill(real(course.beta2)), fill(real(1.0 - course.beta2))
    size = fill(real(rate / (1.0 - course.beta1**step)))
    correction, eps = fill(real(1.0 / np.sqrt(1.0 - course.beta2**step))), fill(real(course.eps))
    for at in range(begin, len(weights), LANES):
        g = load(gradient, at)
        m = add_times(multiply(keep1, load(first, at)), new1, g)
        v = add_times(multiply(keep2, load(second, at)), multiply(new2, g), g)
        store(m, first, at)
        store(v, second, at)
        change = divide(multiply(size, m), add_times(eps, root(v), correction))
        store(subtract(load(weights, at), change), weights, at)


@compiled
def train(data, shape, course, done, rates, weights, gradient, moments, first, second, targets):
    """Train on `data`, after `done` steps, with a learning rate for each step; returns the mean loss."""
    sequences = len(data.keys)
    logits, d_logits = logits_of(first, second)
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m = plan(data, at, n, shape, first, second, targets)
        used = number_tokens(n, m[0], shape.lin, first.rows)
        gather(weights, used, first.rows)
        E_t, d_E_t = weights.occurring[:, :used], gradient.occurring[:, :used]
        blocks.project_tokens(E_t, shape, first.block, first.trace)
        forward(n, m, shape, weights, first, second)
        total += n * cross_entropy(logits, m[1], targets, d_logits)
        backward(n, m, shape, E_t, d_E_t, first, second)
        scatter(gradient, used, first.rows)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, rates[at // course.batch_size], course)
    return total / sequences


@compiled
def evaluate(data, shape, batch_size, weights, first, second, targets):
    """The number of positions of `data` that are counted correctly."""
    sequences = len(data.keys)
    logits, _ = logits_of(first, second)
    right = 0
    blocks.project_tokens(weights.E_t[:, :], shape, first.block, first.trace)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan(data, at, n, shape, first, second, targets)
        forward(n, m, shape, weights, first, second)
        right += count_right(logits, m[1], shape.classes, targets)
    return right


@inlined
def logits_of(first, second):
    """What the last layer puts out, and the room for its gradient."""
    if second is None:
        return first.trace.out, first.d_trace.out
    return second.trace.out, second.d_trace.out


@inlined
def plan(data, at, n, shape, first, second, targets):
    """Plans the rows of sequences at..at+n; returns how many the first and the last block have."""
    if shape.lin:
        m = plan_places(data, at, n, shape.first_count, first.rows, targets)
        return m, m
    order = first.rows.order
    if second is None:
        m = plan_tokens(data, at, n, shape.bos, first.rows)
        plan_labels(data, at, n, shape.first_count, order, first.rows.start, targets)
        return m, m
    sources = plan_tokens(data, at, n, False, first.rows)
    m = plan_rows(n, shape.bos, first.rows, second.rows)
    plan_labels(data, at, n, shape.first_count, order, second.rows.start, targets)
    return sources, m


@inlined
def forward(n, m, shape, weights, first, second):
    """From the projected tokens to the logits."""
    factor = scale(len(weights.E_t), weights.flat)
    blocks.mix_tokens(n, m[0], shape, factor, first.block, first.rows, first.trace)
    blocks.feed(m[0], first.block, first.trace)
    if second is not None:
        blocks.mix_rows(n, m[0], first.trace.out, shape, factor, second.block, second.rows, second.trace)
        blocks.feed(m[1], second.block, second.trace)


@inlined
def backward(n, m, shape, E_t, d_E_t, first, second):
    """From the gradient of the logits to those of all weights."""
    factor = scale(len(E_t), E_t)
    if second is not None:
        blocks.feed_back(m[1], second)
        blocks.mix_rows_back(n, m[0], first.trace.out, shape, factor, second, first.d_trace.out)
    blocks.feed_back(m[0], first)
    blocks.mix_tokens_back(n, m[0], E_t.shape[1], shape, factor, first)
    blocks.project_tokens_back(E_t, shape, first, d_E_t)
