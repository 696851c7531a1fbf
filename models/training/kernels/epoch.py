"""An epoch of training, and evaluation: the order in which the parts are called.

`data` are sequences as multisets (see `sampling`), given from outside: the same kernels train on fresh sequences and
on those of a test. `gradient` keeps that of the last step. All other arguments are room to work in; rows, trace and
d_trace are pairs, one for each block, of which the second is empty where there is no second block.
"""

from __future__ import annotations

from models.training.kernels import blocks
from models.training.kernels.adam import adam
from models.training.kernels.attention import scale
from models.training.kernels.compiling import compiled
from models.training.kernels.plan import plan_labels, plan_places, plan_rows, plan_tokens
from models.training.kernels.readout import count_right, cross_entropy


@compiled
def train(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets):
    """Train on `data`, after `done` steps; returns the mean loss."""
    sequences = len(data.keys)
    last, d_last = trace[shape.layers - 1], d_trace[shape.layers - 1]
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m = plan(data, at, n, shape, rows, targets)
        blocks.project_tokens(weights.E_t, shape, weights.first, trace[0])
        forward(n, m, shape, weights, rows, trace)
        total += n * cross_entropy(last.out, m[shape.layers - 1], targets, d_last.out)
        backward(n, m, shape, weights, rows, trace, d_trace, gradient)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate(data, shape, batch_size, weights, rows, trace, targets):
    """The number of positions of `data` that are counted rightly."""
    sequences = len(data.keys)
    last = trace[shape.layers - 1]
    right = 0
    blocks.project_tokens(weights.E_t, shape, weights.first, trace[0])
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan(data, at, n, shape, rows, targets)
        forward(n, m, shape, weights, rows, trace)
        right += count_right(last.out, m[shape.layers - 1], shape.classes, targets)
    return right


@compiled
def plan(data, at, n, shape, rows, targets):
    """Plans the rows of sequences at..at+n; returns how many each block has."""
    if shape.lin:
        m = plan_places(data, at, n, shape.first_count, rows[0], targets)
        return m, m
    two = shape.layers == 2
    first = plan_tokens(data, at, n, shape.bos and not two, rows[0])
    second = plan_rows(n, shape.bos, rows[0], rows[1]) if two else 0
    plan_labels(data, at, n, shape.first_count, rows[0].order, rows[shape.layers - 1], targets)
    return first, second


@compiled
def forward(n, m, shape, weights, rows, trace):
    """From the projected tokens to the logits."""
    factor = scale(len(weights.E_t), weights.flat)
    one, two = trace
    blocks.mix_tokens(n, m[0], shape, factor, weights.first, rows[0], one)
    blocks.feed(m[0], weights.first, one)
    if shape.layers == 2:
        blocks.mix_rows(n, m[0], one.out, shape, factor, weights.second, rows[1], two)
        blocks.feed(m[1], weights.second, two)


@compiled
def backward(n, m, shape, weights, rows, trace, d_trace, gradient):
    """From the gradient of the logits to those of all weights."""
    factor = scale(len(weights.E_t), weights.flat)
    one, two = trace
    d_one, d_two = d_trace
    first, second, d_first, d_second = weights.first, weights.second, gradient.first, gradient.second
    if shape.layers == 2:
        blocks.feed_back(m[1], second, two, d_two, d_second)
        blocks.mix_rows_back(n, m[0], one.out, shape, factor, second, rows[1], two, d_two, d_second, d_one.out)
    blocks.feed_back(m[0], first, one, d_one, d_first)
    blocks.mix_tokens_back(n, m[0], shape, factor, rows[0], one, d_one, d_first)
    blocks.project_tokens_back(weights.E_t, shape, first, one, d_one, d_first, gradient.E_t)
