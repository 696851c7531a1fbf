"""An epoch of training, and evaluation: the order in which the parts are called.

`data` are sequences as multisets (see `sampling`), given from outside: the same kernels train on fresh sequences and
on those of a test. `gradient` keeps that of the last step. `first` and `second` are the layers; where there is no
second one it is None, and numba leaves out all that belongs to it.
"""

from __future__ import annotations

from counting_interp.models.training.kernels import blocks
from counting_interp.models.training.kernels.adam import adam
from counting_interp.models.training.kernels.attention import scale
from counting_interp.models.training.kernels.compiling import compiled, inlined
from counting_interp.models.training.kernels.loss import count_right, cross_entropy
from counting_interp.models.training.kernels.occurring import gather, number_tokens, scatter
from counting_interp.models.training.kernels.plan import plan_labels, plan_places, plan_rows, plan_tokens


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
    """The number of positions of `data` that are counted rightly."""
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
