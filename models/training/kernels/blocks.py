"""A block, forwards and backwards.

The first block reads the embedding table: its projections and scores are computed per token, not per position. A second
block reads the rows of the first. One product gives q, k and f of all sources: W_x = [W_Q | W_K | W_in].
"""

from __future__ import annotations

from collections import namedtuple

from models.training.kernels import attention, constant, mixing, products
from models.training.kernels.compiling import compiled

# What a kernel is told about a model, and how it is trained.
Shape = namedtuple("Shape", "lin bos softmax frozen classes first_count trained_from")
Course = namedtuple("Course", "batch_size lr beta1 beta2 eps")
# All weights, and those of a block, or their gradients. In `lin` models W_x is W_in alone; the others have no A.
Weights = namedtuple("Weights", "flat W_E first second")
Block = namedtuple("Block", "W_x A b_in W_out b_out")
# What a block keeps of its forward pass, or the gradients of the same things. The first block has copies of the
# columns of qkf, the table of scores, and the spread weights; `lin` has its matrix. f_t and W_out_t are transposed.
Trace = namedtuple("Trace", "qkf q k f f_t matrix table spread weights hidden W_out_t out")


@compiled
def project_tokens(x, shape, block, trace):
    """q, k, f of every token and the table of scores, or the matrix of `lin`: all that depends on weights alone."""
    V, d = x.shape
    products.times(x, V, block.W_x, trace.qkf)
    if shape.lin:
        products.copy_columns(trace.qkf, V, 0, trace.f)
        constant.constant_matrix(block.A, shape.softmax, trace.matrix)
    else:
        products.copy_columns(trace.qkf, V, 0, trace.q)
        products.copy_columns(trace.qkf, V, d, trace.k)
        products.copy_columns(trace.qkf, V, 2 * d, trace.f)
        products.times_transposed(trace.q, V, trace.k, trace.table)


@compiled
def project_tokens_back(x, shape, block, trace, d_trace, d_block, d_x):
    """From the gradients of f and the table (or the matrix) to those of the weights and the embeddings."""
    V, d = x.shape
    if shape.lin:
        products.paste_columns(d_trace.f, V, 0, d_trace.qkf)
        constant.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        products.times(d_trace.table, V, trace.k, d_trace.q)
        products.transposed_times(d_trace.table, V, trace.q, d_trace.k)
        products.paste_columns(d_trace.q, V, 0, d_trace.qkf)
        products.paste_columns(d_trace.k, V, d, d_trace.qkf)
        products.paste_columns(d_trace.f, V, 2 * d, d_trace.qkf)
    products.transposed_times(x, V, d_trace.qkf, d_block.W_x)
    if not shape.frozen:
        products.times_transposed(d_trace.qkf, V, block.W_x, d_x)


@compiled
def mix_tokens(n, m, shape, scale, rows, trace):
    """Pre-activations of the first block's m rows of n sequences."""
    if shape.lin:
        constant.constant_weights(trace.matrix, n, rows, trace.weights)
    else:
        attention.look_up_scores(trace.table, scale, n, rows, trace.weights)
        attention.weigh(n, rows, shape.softmax, trace.weights)
    mixing.spread_weights(trace.weights, n, rows, trace.spread)
    products.times(trace.spread, m, trace.f, trace.hidden)


@compiled
def mix_tokens_back(n, m, shape, scale, rows, trace, d_trace, d_block):
    """From the gradient of the pre-activations to those of f and of the table or matrix."""
    products.transposed_times(trace.spread, m, d_trace.hidden, d_trace.f)
    products.transpose(trace.f, trace.f_t)
    products.times(d_trace.hidden, m, trace.f_t, d_trace.spread)
    mixing.spread_weights_back(d_trace.spread, n, rows, d_trace.weights)
    if shape.lin:
        constant.constant_weights_back(d_trace.weights, n, rows, d_block.A)
    else:
        attention.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        attention.look_up_scores_back(d_trace.weights, scale, n, rows, d_trace.table)


@compiled
def feed(m, block, trace):
    """The rest of the feed-forward layer: bias, ReLU, second product, bias."""
    products.add_and_clip(block.b_in, m, trace.hidden)
    products.times(trace.hidden, m, block.W_out, trace.out)
    products.add_to_rows(trace.out, m, block.b_out)


@compiled
def feed_back(m, block, trace, d_trace, d_block):
    """From the gradient of the output rows to that of the pre-activations."""
    products.sum_of_rows(d_trace.out, m, d_block.b_out)
    products.transposed_times(trace.hidden, m, d_trace.out, d_block.W_out)
    products.transpose(block.W_out, trace.W_out_t)
    products.times(d_trace.out, m, trace.W_out_t, d_trace.hidden)
    products.add_and_clip_back(trace.hidden, m, d_trace.hidden, d_block.b_in)


@compiled
def mix_rows(n, sources, x, shape, scale, block, rows, trace):
    """Pre-activations of the second block from the rows x [source, d_model] of the first."""
    d = x.shape[1]
    products.times(x, sources, block.W_x, trace.qkf)
    if shape.lin:
        constant.constant_matrix(block.A, shape.softmax, trace.matrix)
        constant.constant_weights(trace.matrix, n, rows, trace.weights)
    else:
        attention.compare_rows(trace.qkf, d, scale, n, rows, trace.weights)
        attention.weigh(n, rows, shape.softmax, trace.weights)
    mixing.mix_rows(trace.qkf, 0 if shape.lin else 2 * d, trace.weights, n, rows, trace.hidden)


@compiled
def mix_rows_back(n, sources, x, shape, scale, block, rows, trace, d_trace, d_block, d_x):
    """From the gradient of the second block's pre-activations to those of its weights and of x."""
    d = x.shape[1]
    products.clear(d_trace.qkf, sources)
    at = 0 if shape.lin else 2 * d
    mixing.mix_rows_back(d_trace.hidden, trace.qkf, at, trace.weights, n, rows, d_trace.qkf, d_trace.weights)
    if shape.lin:
        constant.constant_weights_back(d_trace.weights, n, rows, d_block.A)
        constant.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        attention.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        attention.compare_rows_back(d_trace.weights, trace.qkf, d, scale, n, rows, d_trace.qkf)
    products.transposed_times(x, sources, d_trace.qkf, d_block.W_x)
    products.times_transposed(d_trace.qkf, sources, block.W_x, d_x)
