"""An epoch of training, and evaluation: the order in which the parts are called.

`data` are sequences as multisets (see `sampling`), given from outside: the same kernels train on fresh sequences and
on those of a test. `gradient` keeps that of the last step. All other arguments are room to work in.
"""

from __future__ import annotations

from models.training.kernels import mixing
from models.training.kernels.adam import adam
from models.training.kernels.blocks import (
    feed,
    feed_back,
    project,
    project_back,
    score_rows,
    score_rows_back,
    score_tokens,
    score_tokens_back,
)
from models.training.kernels.compiling import compiled
from models.training.kernels.plan import plan_first, plan_labels, plan_second
from models.training.kernels.readout import count_right, cross_entropy


@compiled
def train_one_block(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets, spare):
    """Train on `data`, after `done` steps; returns the mean loss."""
    x, block, d_block = weights.W_E, weights.first, gradient.first
    V, sequences, scale = len(x), len(data.keys), mixing.scale(x)
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        project(x, V, shape, block, trace)
        score_tokens(n, shape, V, scale, rows, trace, True)
        feed(n, m, shape, block, rows, trace)
        total += n * cross_entropy(trace.out, m, shape.classes, targets, d_trace.out)
        feed_back(n, m, V, shape, block, rows, trace, d_trace, d_block)
        score_tokens_back(n, shape, V, scale, rows, trace, d_trace)
        project_back(x, V, shape, block, d_trace, d_block, not shape.frozen, gradient.W_E, spare)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate_one_block(data, shape, batch_size, weights, rows, trace, targets):
    """The number of positions of `data` that are counted rightly."""
    x, block = weights.W_E, weights.first
    V, sequences, scale = len(x), len(data.keys), mixing.scale(x)
    right = 0
    project(x, V, shape, block, trace)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        score_tokens(n, shape, V, scale, rows, trace, at == 0)
        feed(n, m, shape, block, rows, trace)
        right += count_right(trace.out, m, shape.classes, targets)
    return right


@compiled
def train_two_blocks(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets, spare):
    """As `train_one_block`; rows, trace and d_trace are pairs, one for each block."""
    E, one, two = weights.W_E, weights.first, weights.second
    V, sequences, scale = len(E), len(data.keys), mixing.scale(E)
    rows1, rows2 = rows
    trace1, trace2 = trace
    d_trace1, d_trace2 = d_trace
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m1 = plan_first(data, at, n, shape.lin, False, rows1)
        m2 = plan_second(n, shape.lin, shape.bos, rows1, rows2)
        plan_labels(n, shape.lin, shape.first_count, rows1, rows2, targets)
        project(E, V, shape, one, trace1)
        score_tokens(n, shape, V, scale, rows1, trace1, True)
        feed(n, m1, shape, one, rows1, trace1)
        x, d_x = trace1.out, d_trace1.out
        project(x, m1, shape, two, trace2)
        score_rows(n, shape, scale, rows2, trace2)
        feed(n, m2, shape, two, rows2, trace2)
        total += n * cross_entropy(trace2.out, m2, shape.classes, targets, d_trace2.out)
        feed_back(n, m2, m1, shape, two, rows2, trace2, d_trace2, gradient.second)
        score_rows_back(n, shape, m1, scale, rows2, trace2, d_trace2)
        project_back(x, m1, shape, two, d_trace2, gradient.second, True, d_x, spare)
        feed_back(n, m1, V, shape, one, rows1, trace1, d_trace1, gradient.first)
        score_tokens_back(n, shape, V, scale, rows1, trace1, d_trace1)
        project_back(E, V, shape, one, d_trace1, gradient.first, not shape.frozen, gradient.W_E, spare)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate_two_blocks(data, shape, batch_size, weights, rows, trace, targets):
    """As `evaluate_one_block`."""
    E, one, two = weights.W_E, weights.first, weights.second
    V, sequences, scale = len(E), len(data.keys), mixing.scale(E)
    rows1, rows2 = rows
    trace1, trace2 = trace
    right = 0
    project(E, V, shape, one, trace1)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m1 = plan_first(data, at, n, shape.lin, False, rows1)
        m2 = plan_second(n, shape.lin, shape.bos, rows1, rows2)
        plan_labels(n, shape.lin, shape.first_count, rows1, rows2, targets)
        score_tokens(n, shape, V, scale, rows1, trace1, at == 0)
        feed(n, m1, shape, one, rows1, trace1)
        project(trace1.out, m1, shape, two, trace2)
        score_rows(n, shape, scale, rows2, trace2)
        feed(n, m2, shape, two, rows2, trace2)
        right += count_right(trace2.out, m2, shape.classes, targets)
    return right
