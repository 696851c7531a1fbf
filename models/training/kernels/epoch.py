"""An epoch of training, and evaluation: blocks forwards and backwards, the loss, Adam, and their order.

The first block reads the embedding table: its projections and scores are computed per token, not per position. A second
block reads the rows of the first. One matrix holds q, k and f of all sources, side by side: x W_x with
W_x = [W_Q | W_K | W_in]. A product reads its second operand along rows. Where that is stored the other way round, the
smaller operand is transposed first. That is why the embedding table lies in memory as E^T.

`data` are sequences as multisets (see `batches`), so the same kernels train on fresh sequences and on those of a test.
`gradient` keeps that of the last step. `first` and `second` are the layers. Where `second` is None, numba leaves out
all that belongs to it. The loss and Adam are as torch computes them; Adam is one pass over all weights.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from counting_interp.models.training.kernels import batches, products
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
from counting_interp.models.training.kernels.tiles import times, transposed_times
from counting_interp.util.compiled import compiled, inlined

PADDING = -1e30  # bias of the classes that are padding: never the largest
# What a kernel knows about a model, and how it is trained. f_at: the first column of f beside q and k.
Shape = namedtuple("Shape", "lin bos softmax frozen classes first_count f_at trained_from")
Course = namedtuple("Course", "batch_size beta1 beta2 eps")
# All weights as one array, the embeddings among them, and those that occur in a batch; or their gradients.
Weights = namedtuple("Weights", "flat E_t occurring")
# The weights of a block, or their gradients. In `lin` models W_x is W_in alone; the others have no A.
Block = namedtuple("Block", "W_x A b_in W_out b_out")
# What a block keeps of its forward pass, or the gradients of the same things; see `kernel_engine._trace`.
Trace = namedtuple("Trace", "qkf k_t table weights matrix with_residual by_position hidden out W_out_t turned")
# A block with its gradient, the plan of its rows, its trace and the gradient of that.
Layer = namedtuple("Layer", "block d_block rows trace d_trace")


@inlined
def project_tokens(E_t, shape, block, trace):
    """q, k, f of the tokens E_t [d_model, token] and the table of their scores, or the matrix of `lin`."""
    d, V = E_t.shape
    transposed_times(E_t, d, block.W_x, trace.qkf[:V])
    if shape.lin:
        products.constant_matrix(block.A, shape.softmax, trace.matrix, trace.with_residual)
    else:
        k_t = trace.k_t[:, :V]
        products.transpose(trace.qkf[:, d : 2 * d], V, k_t)
        times(trace.qkf[:, :d], V, k_t, trace.table)


@inlined
def project_tokens_back(E_t, shape, layer, d_E_t):
    """From the gradients of f and the table (or the matrix) to those of the weights and the embeddings."""
    block, d_block, trace, d_trace = layer.block, layer.d_block, layer.trace, layer.d_trace
    d, V = E_t.shape
    if shape.lin:
        products.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        d_table = d_trace.table[:, :V]
        times(d_table, V, trace.qkf[:V, d : 2 * d], d_trace.qkf[:, :d])
        transposed_times(d_table, V, trace.qkf[:, :d], d_trace.qkf[:, d : 2 * d])
    times(E_t, d, d_trace.qkf[:V], d_block.W_x)
    if not shape.frozen:
        turned = trace.turned[:, :V]
        products.transpose(d_trace.qkf, V, turned)
        times(block.W_x, d, turned, d_E_t)


@inlined
def mix_tokens(n, m, shape, scale, block, rows, trace):
    """Hidden units of the first block's m rows of n sequences."""
    f = trace.qkf[:, shape.f_at :]
    if shape.lin:
        products.gather_positions(f, m, rows.own, trace.by_position)
        products.mix_constant(trace.with_residual, block.b_in, m, trace.by_position, trace.hidden)
    else:
        products.look_up_scores(trace.table, scale, n, rows, trace.weights)
        products.weigh(n, rows, shape.softmax, trace.weights)
        products.mix(f, trace.weights, block.b_in, n, rows, trace.hidden)


@inlined
def mix_tokens_back(n, m, V, shape, scale, layer):
    """From the gradient of the pre-activations to those of the f of V tokens and of the table or matrix."""
    d_block, rows, trace, d_trace = layer.d_block, layer.rows, layer.trace, layer.d_trace
    f, d_f = trace.qkf[:, shape.f_at :], d_trace.qkf[:, shape.f_at :]
    if shape.lin:
        products.mix_constant_back(
            d_trace.hidden, trace.with_residual, m, trace.by_position, d_block.A, d_trace.by_position
        )
        products.gather_positions_back(d_trace.by_position, m, rows.own, V, d_f)
    else:
        products.mix_back(d_trace.hidden, f, V, trace.weights, n, rows, d_f, d_trace.weights)
        products.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        products.look_up_scores_back(d_trace.weights, scale, n, rows, d_trace.table[:V, :V])


@inlined
def feed(m, block, trace):
    """The rest of the feed-forward layer: second product, bias."""
    times(trace.hidden, m, block.W_out, trace.out)
    products.add_to_rows(trace.out, m, block.b_out)


@inlined
def feed_back(m, layer):
    """From the gradient of the output rows to that of the pre-activations."""
    block, d_block, trace, d_trace = layer.block, layer.d_block, layer.trace, layer.d_trace
    products.sum_of_rows(d_trace.out, m, d_block.b_out)
    transposed_times(trace.hidden, m, d_trace.out, d_block.W_out)
    products.transpose(block.W_out, len(block.W_out), trace.W_out_t)
    times(d_trace.out, m, trace.W_out_t, d_trace.hidden)
    products.add_and_clip_back(trace.hidden, m, d_trace.hidden, d_block.b_in)


@inlined
def mix_rows(n, sources, x, shape, scale, block, rows, trace):
    """Hidden units of the second block from the rows x [source, d_model] of the first."""
    d = x.shape[1]
    times(x, sources, block.W_x, trace.qkf)
    if shape.lin:
        products.constant_matrix(block.A, shape.softmax, trace.matrix, trace.with_residual)
        products.mix_constant(trace.with_residual, block.b_in, sources, trace.qkf, trace.hidden)
    else:
        q, k = trace.qkf[:, :d], trace.qkf[:, d : 2 * d]
        products.compare_rows(q, k, trace.k_t, scale, sources, n, rows, trace.weights)
        products.weigh(n, rows, shape.softmax, trace.weights)
        products.mix(trace.qkf[:, shape.f_at :], trace.weights, block.b_in, n, rows, trace.hidden)


@inlined
def mix_rows_back(n, sources, x, shape, scale, layer, d_x):
    """From the gradient of the second block's pre-activations to those of its weights and of x."""
    block, d_block, rows, trace, d_trace = layer.block, layer.d_block, layer.rows, layer.trace, layer.d_trace
    d = x.shape[1]
    if shape.lin:
        products.mix_constant_back(d_trace.hidden, trace.with_residual, sources, trace.qkf, d_block.A, d_trace.qkf)
        products.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        q, k, f = trace.qkf[:, :d], trace.qkf[:, d : 2 * d], trace.qkf[:, shape.f_at :]
        d_q, d_k, d_f = d_trace.qkf[:, :d], d_trace.qkf[:, d : 2 * d], d_trace.qkf[:, shape.f_at :]
        products.mix_back(d_trace.hidden, f, sources, trace.weights, n, rows, d_f, d_trace.weights)
        products.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        products.compare_rows_back(d_trace.weights, q, k, scale, sources, n, rows, d_q, d_k)
    transposed_times(x, sources, d_trace.qkf, d_block.W_x)
    products.transpose(block.W_x, d, trace.turned)
    times(d_trace.qkf, sources, trace.turned, d_x)


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
        used = batches.number_tokens(n, m[0], shape.lin, first.rows)
        batches.gather_embeddings(weights, used, first.rows)
        E_t, d_E_t = weights.occurring[:, :used], gradient.occurring[:, :used]
        project_tokens(E_t, shape, first.block, first.trace)
        forward(n, m, shape, weights, first, second)
        total += n * cross_entropy(logits, m[1], targets, d_logits)
        backward(n, m, shape, E_t, d_E_t, first, second)
        batches.scatter_gradient(gradient, used, first.rows)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, rates[at // course.batch_size], course)
    return total / sequences


@compiled
def evaluate(data, shape, batch_size, weights, first, second, targets):
    """The number of positions of `data` that are counted correctly."""
    sequences = len(data.keys)
    logits, _ = logits_of(first, second)
    right = 0
    project_tokens(weights.E_t[:, :], shape, first.block, first.trace)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan(data, at, n, shape, first, second, targets)
        forward(n, m, shape, weights, first, second)
        right += count_right(logits, m[1], shape.classes, targets)
    return right


@inlined
def logits_of(first, second):
    """The output of the last layer, and the array of its gradient."""
    if second is None:
        return first.trace.out, first.d_trace.out
    return second.trace.out, second.d_trace.out


@inlined
def plan(data, at, n, shape, first, second, targets):
    """Plan the rows of sequences at..at+n; returns how many the first and the last block have."""
    if shape.lin:
        m = batches.plan_positions(data, at, n, shape.first_count, first.rows, targets)
        return m, m
    order = first.rows.order
    if second is None:
        m = batches.plan_tokens(data, at, n, shape.bos, first.rows)
        batches.plan_labels(data, at, n, shape.first_count, order, first.rows.start, targets)
        return m, m
    sources = batches.plan_tokens(data, at, n, False, first.rows)
    m = batches.plan_rows(n, shape.bos, first.rows, second.rows)
    batches.plan_labels(data, at, n, shape.first_count, order, second.rows.start, targets)
    return sources, m


@inlined
def scale(d, like):
    """1 / sqrt(d), by which scores are scaled, in the precision of `like`."""
    return like.dtype.type(1.0 / np.sqrt(d))


@inlined
def forward(n, m, shape, weights, first, second):
    """From the projected tokens to the logits."""
    factor = scale(len(weights.E_t), weights.flat)
    mix_tokens(n, m[0], shape, factor, first.block, first.rows, first.trace)
    feed(m[0], first.block, first.trace)
    if second is not None:
        mix_rows(n, m[0], first.trace.out, shape, factor, second.block, second.rows, second.trace)
        feed(m[1], second.block, second.trace)


@inlined
def backward(n, m, shape, E_t, d_E_t, first, second):
    """From the gradient of the logits to those of all weights."""
    factor = scale(len(E_t), E_t)
    if second is not None:
        feed_back(m[1], second)
        mix_rows_back(n, m[0], first.trace.out, shape, factor, second, first.d_trace.out)
    feed_back(m[0], first)
    mix_tokens_back(n, m[0], E_t.shape[1], shape, factor, first)
    project_tokens_back(E_t, shape, first, d_E_t)
