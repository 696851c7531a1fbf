"""An epoch of training, and evaluation: the order in which the parts are called.

`data` are sequences as multisets (see `sampling`), given from outside: the same kernels train on fresh sequences and
on those of a test. `gradient` keeps that of the last step. All other arguments are room to work in.
"""

from __future__ import annotations

from models.training.kernels import blocks
from models.training.kernels.adam import adam
from models.training.kernels.attention import scale
from models.training.kernels.compiling import compiled
from models.training.kernels.plan import plan_first, plan_labels, plan_second
from models.training.kernels.readout import count_right, cross_entropy


@compiled
def train_one_block(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets):
    """Train on `data`, after `done` steps; returns the mean loss."""
    E, block, d_block = weights.W_E, weights.first, gradient.first
    sequences = len(data.keys)
    factor = scale(E)
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        blocks.project_tokens(E, shape, block, trace)
        blocks.mix_tokens(n, m, shape, factor, rows, trace)
        blocks.feed(m, block, trace)
        total += n * cross_entropy(trace.out, m, shape.classes, targets, d_trace.out)
        blocks.feed_back(m, block, trace, d_trace, d_block)
        blocks.mix_tokens_back(n, m, shape, factor, rows, trace, d_trace, d_block)
        blocks.project_tokens_back(E, shape, block, trace, d_trace, d_block, gradient.W_E)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate_one_block(data, shape, batch_size, weights, rows, trace, targets):
    """The number of positions of `data` that are counted rightly."""
    sequences = len(data.keys)
    factor = scale(weights.W_E)
    right = 0
    blocks.project_tokens(weights.W_E, shape, weights.first, trace)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        blocks.mix_tokens(n, m, shape, factor, rows, trace)
        blocks.feed(m, weights.first, trace)
        right += count_right(trace.out, m, shape.classes, targets)
    return right


@compiled
def train_two_blocks(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets):
    """As `train_one_block`; rows, trace and d_trace are pairs, one for each block."""
    E, one, two, d_one, d_two = weights.W_E, weights.first, weights.second, gradient.first, gradient.second
    rows1, rows2 = rows
    trace1, trace2 = trace
    d_trace1, d_trace2 = d_trace
    sequences = len(data.keys)
    factor = scale(E)
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m1 = plan_first(data, at, n, shape.lin, False, rows1)
        m2 = plan_second(n, shape.lin, shape.bos, rows1, rows2)
        plan_labels(n, shape.lin, shape.first_count, rows1, rows2, targets)
        blocks.project_tokens(E, shape, one, trace1)
        blocks.mix_tokens(n, m1, shape, factor, rows1, trace1)
        blocks.feed(m1, one, trace1)
        blocks.mix_rows(n, m1, trace1.out, shape, factor, two, rows2, trace2)
        blocks.feed(m2, two, trace2)
        total += n * cross_entropy(trace2.out, m2, shape.classes, targets, d_trace2.out)
        blocks.feed_back(m2, two, trace2, d_trace2, d_two)
        x, d_x = trace1.out, d_trace1.out
        blocks.mix_rows_back(n, m1, x, shape, factor, two, rows2, trace2, d_trace2, d_two, d_x)
        blocks.feed_back(m1, one, trace1, d_trace1, d_one)
        blocks.mix_tokens_back(n, m1, shape, factor, rows1, trace1, d_trace1, d_one)
        blocks.project_tokens_back(E, shape, one, trace1, d_trace1, d_one, gradient.W_E)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate_two_blocks(data, shape, batch_size, weights, rows, trace, targets):
    """As `evaluate_one_block`."""
    rows1, rows2 = rows
    trace1, trace2 = trace
    sequences = len(data.keys)
    factor = scale(weights.W_E)
    right = 0
    blocks.project_tokens(weights.W_E, shape, weights.first, trace1)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m1 = plan_first(data, at, n, shape.lin, False, rows1)
        m2 = plan_second(n, shape.lin, shape.bos, rows1, rows2)
        plan_labels(n, shape.lin, shape.first_count, rows1, rows2, targets)
        blocks.mix_tokens(n, m1, shape, factor, rows1, trace1)
        blocks.feed(m1, weights.first, trace1)
        blocks.mix_rows(n, m1, trace1.out, shape, factor, weights.second, rows2, trace2)
        blocks.feed(m2, weights.second, trace2)
        right += count_right(trace2.out, m2, shape.classes, targets)
    return right
