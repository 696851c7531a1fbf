"""A block, forwards and backwards: projections of its source rows, scores, mixing and feed-forward layer.

The first block reads the embedding table: its q, k, f and scores are computed per token, not per position. A second
block reads the rows of the first.
"""

from __future__ import annotations

from collections import namedtuple

from models.training.kernels import mixing, products
from models.training.kernels.compiling import compiled

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
def score_tokens(n, shape, vocab, scale, rows, trace, fresh):
    """Scores of the first block from a table [vocab, vocab], which is computed if the weights are `fresh`."""
    if not shape.lin:
        if fresh:
            products.times_transposed(trace.q, vocab, trace.k, trace.table)
        mixing.look_up_scores(trace.table, scale, n, rows, trace.weights)


@compiled
def score_tokens_back(n, shape, vocab, scale, rows, trace, d_trace):
    """From the gradients of scores to those of q and k."""
    if not shape.lin:
        mixing.look_up_scores_back(d_trace.weights, scale, n, rows, d_trace.table)
        products.times(d_trace.table, vocab, trace.k, d_trace.q)
        products.transposed_times(d_trace.table, vocab, trace.q, d_trace.k)


@compiled
def score_rows(n, shape, scale, rows, trace):
    """Scores of the second block, between the rows of each sequence."""
    if not shape.lin:
        mixing.compare_rows(trace.q, trace.k, scale, n, rows, trace.weights)


@compiled
def score_rows_back(n, shape, sources, scale, rows, trace, d_trace):
    """From the gradients of scores to those of q and k."""
    if not shape.lin:
        products.clear(d_trace.q, sources)
        products.clear(d_trace.k, sources)
        mixing.compare_rows_back(d_trace.weights, trace.q, trace.k, scale, n, rows, d_trace.q, d_trace.k)
