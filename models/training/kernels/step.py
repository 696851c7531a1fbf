"""One step of training, one epoch of steps, and evaluation, for all six variants and one or two blocks."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from models.training.kernels import mixing
from models.training.kernels.adam import adam
from models.training.kernels.compiling import compiled
from models.training.kernels.plan import plan_first, plan_labels, plan_second
from models.training.kernels.random import open_stream
from models.training.kernels.readout import count_right, cross_entropy
from models.training.kernels.sampling import draw_batch

# What a kernel is told about a model, and what it trains on.
Shape = namedtuple("Shape", "T lin bos softmax two_layers frozen classes first_count")
Course = namedtuple("Course", "sampler sequences batch_size lr beta1 beta2 eps")
# Weights of a block, and their gradients. p and the classes are padded; `lin` has no W_Q and W_K, the others no A.
Block = namedtuple("Block", "W_Q W_K A W_in b_in W_out b_out")
Weights = namedtuple("Weights", "W_E first second flat")
# What a block keeps from its forward pass, and the gradients of the same things.
Trace = namedtuple("Trace", "q k f matrix table weights hidden out")
Work = namedtuple("Work", "rows1 rows2 trace1 trace2 d_trace1 d_trace2 d_x labels repeats")


@compiled
def project(x, shape, block, trace):
    """q, k and f of the source rows x [source, d_model]."""
    if not shape.lin:
        np.dot(x, block.W_Q, trace.q[: len(x)])
        np.dot(x, block.W_K, trace.k[: len(x)])
    np.dot(x, block.W_in, trace.f[: len(x)])


@compiled
def project_back(x, shape, block, d_trace, d_block, d_x, need_d_x, spare):
    """Gradients of W_Q, W_K, W_in, and of x where it is needed."""
    n = len(x)
    np.dot(x.T, d_trace.f[:n], d_block.W_in)
    if need_d_x:
        np.dot(d_trace.f[:n], block.W_in.T, d_x)
    if shape.lin:
        return
    np.dot(x.T, d_trace.q[:n], d_block.W_Q)
    np.dot(x.T, d_trace.k[:n], d_block.W_K)
    if need_d_x:
        np.dot(d_trace.q[:n], block.W_Q.T, spare)
        d_x += spare
        np.dot(d_trace.k[:n], block.W_K.T, spare)
        d_x += spare


@compiled
def prepare(shape, weights, work):
    """What depends on the weights alone: the first block in vocabulary space, and the matrices of `lin`."""
    trace = work.trace1
    project(weights.W_E, shape, weights.first, trace)
    if not shape.lin:
        np.dot(trace.q, trace.k.T, trace.table)
    elif shape.softmax:
        mixing.softmax_rows(weights.first.A, trace.matrix)
        mixing.softmax_rows(weights.second.A, work.trace2.matrix)
    else:
        trace.matrix[:] = weights.first.A
        work.trace2.matrix[:] = weights.second.A


@compiled
def forward(n, shape, weights, work):
    """Logits of the first `n` sequences of the batch, one row for each that the plan asks for."""
    scale = weights.W_E.dtype.type(1.0 / np.sqrt(weights.W_E.shape[1]))
    rows, trace = work.rows1, work.trace1
    plan_first(n, shape.lin, shape.two_layers, shape.bos, rows)
    if shape.lin:
        mixing.constant_weights(trace.matrix, n, rows, trace.weights)
    else:
        mixing.look_up_scores(trace.table, scale, n, rows, trace.weights)
        mixing.weigh(n, rows, shape.softmax, trace.weights)
    finish(n, weights.first, rows, trace)
    if not shape.two_layers:
        plan_labels(n, shape.lin, shape.first_count, rows, rows, work.labels, work.repeats)
        return trace.out[: rows.start[n]]
    x = trace.out[: rows.start[n]]
    rows, trace = work.rows2, work.trace2
    plan_second(n, shape.bos, work.rows1, rows)
    project(x, shape, weights.second, trace)
    if shape.lin:
        mixing.constant_weights(trace.matrix, n, rows, trace.weights)
    else:
        rows.counts[:n] = work.rows1.counts[:n]
        mixing.compare_rows(trace.q, trace.k, scale, n, rows, trace.weights)
        mixing.weigh(n, rows, shape.softmax, trace.weights)
    finish(n, weights.second, rows, trace)
    plan_labels(n, shape.lin, shape.first_count, work.rows1, rows, work.labels, work.repeats)
    return trace.out[: rows.start[n]]


@compiled
def finish(n, block, rows, trace):
    """Mix, and run the feed-forward layer."""
    mixing.mix(trace.f, block.b_in, trace.weights, n, rows, trace.hidden)
    m = rows.start[n]
    np.dot(trace.hidden[:m], block.W_out, trace.out[:m])
    for r in range(m):
        for i in range(len(block.b_out)):
            trace.out[r, i] += block.b_out[i]


@compiled
def finish_back(n, block, rows, trace, d_trace, d_block):
    """Backwards through `finish`: from d_trace.out to the weights of the feed-forward layer, f and mixing weights."""
    m = rows.start[n]
    d_block.b_out[:] = d_block.b_out.dtype.type(0)
    for r in range(m):
        for i in range(len(d_block.b_out)):
            d_block.b_out[i] += d_trace.out[r, i]
    np.dot(trace.hidden[:m].T, d_trace.out[:m], d_block.W_out)
    np.dot(d_trace.out[:m], block.W_out.T, d_trace.hidden[:m])
    mixing.mix_back(
        d_trace.hidden, trace.hidden, trace.f, trace.weights, n, rows, d_trace.f, d_block.b_in, d_trace.weights
    )


@compiled
def backward(n, shape, weights, work, d_weights):
    """Gradients of all weights from the gradient of the logits."""
    scale = weights.W_E.dtype.type(1.0 / np.sqrt(weights.W_E.shape[1]))
    if shape.two_layers:
        m = work.rows1.start[n]
        rows, trace, d_trace = work.rows2, work.trace2, work.d_trace2
        finish_back(n, weights.second, rows, trace, d_trace, d_weights.second)
        if shape.lin:
            constant_back(n, shape, rows, trace, d_trace, d_weights.second)
        else:
            mixing.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
            mixing.compare_rows_back(d_trace.weights, trace.q, trace.k, scale, n, rows, d_trace.q[:m], d_trace.k[:m])
        x, d_x = work.trace1.out[:m], work.d_trace1.out[:m]
        project_back(x, shape, weights.second, d_trace, d_weights.second, d_x, True, work.d_x[:m])
    rows, trace, d_trace = work.rows1, work.trace1, work.d_trace1
    finish_back(n, weights.first, rows, trace, d_trace, d_weights.first)
    if shape.lin:
        constant_back(n, shape, rows, trace, d_trace, d_weights.first)
    else:
        mixing.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        mixing.add_to_table(d_trace.weights, scale, n, rows, d_trace.table)
        np.dot(d_trace.table, trace.k, d_trace.q)
        np.dot(d_trace.table.T, trace.q, d_trace.k)
    V = len(weights.W_E)
    project_back(
        weights.W_E, shape, weights.first, d_trace, d_weights.first, d_weights.W_E, not shape.frozen, work.d_x[:V]
    )


@compiled
def constant_back(n, shape, rows, trace, d_trace, d_block):
    mixing.constant_weights_back(d_trace.weights, n, rows, d_block.A)
    if shape.softmax:
        mixing.softmax_rows_back(trace.matrix, d_block.A)


@compiled
def loss_and_gradient(n, shape, weights, work, d_weights):
    """Mean loss over the positions of the batch in work.rows1, and its gradient in `d_weights`."""
    prepare(shape, weights, work)
    logits = forward(n, shape, weights, work)
    d_logits = work.d_trace2.out if shape.two_layers else work.d_trace1.out
    loss = cross_entropy(logits, shape.classes, work.labels, work.repeats, d_logits)
    backward(n, shape, weights, work, d_weights)
    return loss


@compiled
def train_epoch(seed, epoch, shape, course, weights, d_weights, first, second, work, trained_from):
    """One epoch on fresh sequences; returns the mean loss per position. `epoch` counts from 0."""
    state = np.empty(1, np.uint64)
    open_stream(state, seed, epoch)
    rows = work.rows1
    steps = -(-course.sequences // course.batch_size)
    total = 0.0
    for step in range(steps):
        n = min(course.batch_size, course.sequences - step * course.batch_size)
        draw_batch(
            state, course.sampler, shape.T, shape.bos, shape.lin, n, rows.source, rows.counts, rows.keys, rows.places
        )
        total += n * loss_and_gradient(n, shape, weights, work, d_weights)
        adam(
            weights.flat[trained_from:],
            d_weights.flat[trained_from:],
            first[trained_from:],
            second[trained_from:],
            epoch * steps + step + 1,
            course.lr,
            course.beta1,
            course.beta2,
            course.eps,
        )
    return total / course.sequences


@compiled
def evaluate(shape, weights, work, source, counts, keys, places, batch_size):
    """Share of positions counted rightly on given sequences, collected as multisets."""
    rows = work.rows1
    prepare(shape, weights, work)
    right = 0
    total = len(keys)
    for at in range(0, total, batch_size):
        n = min(batch_size, total - at)
        rows.source[:n] = source[at : at + n]
        rows.counts[:n] = counts[at : at + n]
        rows.keys[:n] = keys[at : at + n]
        rows.places[:n] = places[at : at + n]
        logits = forward(n, shape, weights, work)
        right += count_right(logits, shape.classes, work.labels, work.repeats)
    return right / (total * places.shape[1])
