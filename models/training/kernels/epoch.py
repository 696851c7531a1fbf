"""An epoch of training, and evaluation: the order in which the parts are called.

One block reads the embedding table, so its q, k, f and scores are computed per token, not per position; a second block
reads the rows of the first. `data` are sequences as multisets (see `sampling`), given from outside: the same kernels
train on fresh sequences and on those of a test.
"""

from __future__ import annotations

from collections import namedtuple

from models.training.kernels import mixing, products
from models.training.kernels.adam import adam
from models.training.kernels.compiling import compiled
from models.training.kernels.plan import plan_first, plan_labels
from models.training.kernels.readout import count_right, cross_entropy

# What a kernel is told about a model, and how it is trained.
Shape = namedtuple("Shape", "lin bos softmax frozen classes first_count trained_from")
Course = namedtuple("Course", "batch_size lr beta1 beta2 eps")
# All weights, and those of a block, or their gradients. `lin` has no W_Q and W_K, the others have no A.
Weights = namedtuple("Weights", "flat W_E first second")
Block = namedtuple("Block", "W_Q W_K A W_in b_in W_out b_out")
# What a block keeps of its forward pass, and the gradients of the same things.
Trace = namedtuple("Trace", "q k f matrix table weights hidden out")


@compiled
def project(x, n, shape, block, trace):
    """f, q and k of n source rows x [source, d_model], or the matrix of `lin`."""
    products.times(x, n, block.W_in, trace.f)
    if shape.lin:
        mixing.constant_matrix(block.A, shape.softmax, trace.matrix)
    else:
        products.times(x, n, block.W_Q, trace.q)
        products.times(x, n, block.W_K, trace.k)


@compiled
def project_back(x, n, shape, block, d_trace, d_block, need_d_x, d_x, spare):
    """Gradients of W_in, W_Q and W_K, and of x where it is needed."""
    products.transposed_times(x, n, d_trace.f, d_block.W_in)
    if need_d_x:
        products.times_transposed(d_trace.f, n, block.W_in, d_x)
    if not shape.lin:
        products.transposed_times(x, n, d_trace.q, d_block.W_Q)
        products.transposed_times(x, n, d_trace.k, d_block.W_K)
        if need_d_x:
            products.times_transposed(d_trace.q, n, block.W_Q, spare)
            products.add(d_x, n, spare)
            products.times_transposed(d_trace.k, n, block.W_K, spare)
            products.add(d_x, n, spare)


@compiled
def feed(n, m, shape, block, rows, trace):
    """From scores to the m output rows of n sequences: mixing weights, hidden units, second product."""
    if shape.lin:
        mixing.constant_weights(trace.matrix, n, rows, trace.weights)
    else:
        mixing.weigh(n, rows, shape.softmax, trace.weights)
    mixing.mix(trace.f, block.b_in, trace.weights, n, rows, trace.hidden)
    products.times(trace.hidden, m, block.W_out, trace.out)
    products.add_to_rows(trace.out, m, block.b_out)


@compiled
def feed_back(n, m, sources, shape, block, rows, trace, d_trace, d_block):
    """From the gradient of the output rows to those of scores and f, and of the weights passed on the way."""
    products.sum_of_rows(d_trace.out, m, d_block.b_out)
    products.transposed_times(trace.hidden, m, d_trace.out, d_block.W_out)
    products.times_transposed(d_trace.out, m, block.W_out, d_trace.hidden)
    products.clear(d_trace.f, sources)
    mixing.mix_back(
        d_trace.hidden, trace.hidden, trace.f, trace.weights, n, rows, d_trace.f, d_block.b_in, d_trace.weights
    )
    if shape.lin:
        mixing.constant_weights_back(d_trace.weights, n, rows, d_block.A)
        mixing.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        mixing.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)


@compiled
def train_one_block(data, shape, course, done, weights, moments, gradient, rows, trace, d_trace, targets, spare):
    """Train a model of one block on `data`, after `done` steps; returns the mean loss.

    Its scores depend on two tokens only, so they are a table [vocab, vocab]. `gradient` keeps that of the last step.
    """
    x, block, d_block = weights.W_E, weights.first, gradient.first
    V, sequences = len(x), len(data.keys)
    scale = mixing.scale(x)
    total = 0.0
    for at in range(0, sequences, course.batch_size):
        n = min(course.batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        project(x, V, shape, block, trace)
        if not shape.lin:
            products.times_transposed(trace.q, V, trace.k, trace.table)
            mixing.look_up_scores(trace.table, scale, n, rows, trace.weights)
        feed(n, m, shape, block, rows, trace)
        total += n * cross_entropy(trace.out, m, shape.classes, targets, d_trace.out)
        feed_back(n, m, V, shape, block, rows, trace, d_trace, d_block)
        if not shape.lin:
            mixing.look_up_scores_back(d_trace.weights, scale, n, rows, d_trace.table)
            products.times(d_trace.table, V, trace.k, d_trace.q)
            products.transposed_times(d_trace.table, V, trace.q, d_trace.k)
        project_back(x, V, shape, block, d_trace, d_block, not shape.frozen, gradient.W_E, spare)
        done += 1
        adam(weights.flat, gradient.flat, moments, shape.trained_from, done, course)
    return total / sequences


@compiled
def evaluate_one_block(data, shape, batch_size, weights, rows, trace, targets):
    """The number of positions of `data` that a model of one block counts rightly."""
    x, block = weights.W_E, weights.first
    sequences = len(data.keys)
    scale = mixing.scale(x)
    right = 0
    project(x, len(x), shape, block, trace)
    if not shape.lin:
        products.times_transposed(trace.q, len(x), trace.k, trace.table)
    for at in range(0, sequences, batch_size):
        n = min(batch_size, sequences - at)
        m = plan_first(data, at, n, shape.lin, shape.bos, rows)
        plan_labels(n, shape.lin, shape.first_count, rows, rows, targets)
        if not shape.lin:
            mixing.look_up_scores(trace.table, scale, n, rows, trace.weights)
        feed(n, m, shape, block, rows, trace)
        right += count_right(trace.out, m, shape.classes, targets)
    return right
