"""A block, forwards and backwards.

The first block reads the embedding table: its projections and scores are computed per token, not per position. A second
block reads the rows of the first. One matrix holds q, k and f of all sources, side by side: x W_x with
W_x = [W_Q | W_K | W_in]. A product with a transposed matrix is slow in BLAS; of its two operands the smaller one is
turned over first. That is why the embedding table lies in memory as E^T.
"""

from __future__ import annotations

from collections import namedtuple

from counting_interp.models.training.kernels import mixers, products
from counting_interp.util.compiled import inlined

# What a kernel knows about a model, and how it is trained. f_at: the first column of f beside q and k.
Shape = namedtuple("Shape", "lin bos softmax frozen classes first_count f_at trained_from")
Course = namedtuple("Course", "batch_size beta1 beta2 eps")
# All weights as one array, the embeddings among them, and those that occur in a batch; or their gradients.
Weights = namedtuple("Weights", "flat E_t occurring")
# The weights of a block, or their gradients. In `lin` models W_x is W_in alone; the others have no A.
Block = namedtuple("Block", "W_x A b_in W_out b_out")
# What a block keeps of its forward pass, or the gradients of the same things; see `models.training.kernel_engine`.
Trace = namedtuple("Trace", "qkf k_t table weights matrix with_residual placed hidden out W_out_t turned")
# A block with its gradient, the plan of its rows, its trace and the gradient of that.
Layer = namedtuple("Layer", "block d_block rows trace d_trace")


@inlined
def project_tokens(E_t, shape, block, trace):
    """q, k, f of the tokens E_t [d_model, token] and the table of their scores, or the matrix of `lin`."""
    d, V = E_t.shape
    products.transposed_times(E_t, d, block.W_x, trace.qkf[:V])
    if shape.lin:
        mixers.constant_matrix(block.A, shape.softmax, trace.matrix, trace.with_residual)
    else:
        k_t = trace.k_t[:, :V]
        products.transpose(trace.qkf[:, d : 2 * d], V, k_t)
        products.times(trace.qkf[:, :d], V, k_t, trace.table)


@inlined
def project_tokens_back(E_t, shape, layer, d_E_t):
    """From the gradients of f and the table (or the matrix) to those of the weights and the embeddings."""
    block, d_block, trace, d_trace = layer.block, layer.d_block, layer.trace, layer.d_trace
    d, V = E_t.shape
    if shape.lin:
        mixers.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        d_table = d_trace.table[:, :V]
        products.times(d_table, V, trace.qkf[:V, d : 2 * d], d_trace.qkf[:, :d])
        products.transposed_times(d_table, V, trace.qkf[:, :d], d_trace.qkf[:, d : 2 * d])
    products.times(E_t, d, d_trace.qkf[:V], d_block.W_x)
    if not shape.frozen:
        turned = trace.turned[:, :V]
        products.transpose(d_trace.qkf, V, turned)
        products.times(block.W_x, d, turned, d_E_t)


@inlined
def mix_tokens(n, m, shape, scale, block, rows, trace):
    """Hidden units of the first block's m rows of n sequences."""
    f = trace.qkf[:, shape.f_at :]
    if shape.lin:
        mixers.gather(f, m, rows.own, trace.placed)
        mixers.mix_constant(trace.with_residual, block.b_in, n, trace.placed, trace.hidden)
    else:
        mixers.look_up_scores(trace.table, scale, n, rows, trace.weights)
        mixers.weigh(n, rows, shape.softmax, trace.weights)
        mixers.mix(f, trace.weights, block.b_in, n, rows, trace.hidden)


@inlined
def mix_tokens_back(n, m, V, shape, scale, layer):
    """From the gradient of the pre-activations to those of the f of V tokens and of the table or matrix."""
    d_block, rows, trace, d_trace = layer.d_block, layer.rows, layer.trace, layer.d_trace
    f, d_f = trace.qkf[:, shape.f_at :], d_trace.qkf[:, shape.f_at :]
    if shape.lin:
        mixers.mix_constant_back(d_trace.hidden, trace.with_residual, n, trace.placed, d_block.A, d_trace.placed)
        mixers.place_back(d_trace.placed, m, rows.own, V, d_f)
    else:
        mixers.mix_back(d_trace.hidden, f, V, trace.weights, n, rows, d_f, d_trace.weights)
        mixers.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        mixers.look_up_scores_back(d_trace.weights, scale, n, rows, d_trace.table[:V, :V])


@inlined
def feed(m, block, trace):
    """The rest of the feed-forward layer: second product, bias."""
    products.times(trace.hidden, m, block.W_out, trace.out)
    products.add_to_rows(trace.out, m, block.b_out)


@inlined
def feed_back(m, layer):
    """From the gradient of the output rows to that of the pre-activations."""
    block, d_block, trace, d_trace = layer.block, layer.d_block, layer.trace, layer.d_trace
    products.sum_of_rows(d_trace.out, m, d_block.b_out)
    products.transposed_times(trace.hidden, m, d_trace.out, d_block.W_out)
    products.transpose(block.W_out, len(block.W_out), trace.W_out_t)
    products.times(d_trace.out, m, trace.W_out_t, d_trace.hidden)
    products.add_and_clip_back(trace.hidden, m, d_trace.hidden, d_block.b_in)


@inlined
def mix_rows(n, sources, x, shape, scale, block, rows, trace):
    """Hidden units of the second block from the rows x [source, d_model] of the first."""
    d = x.shape[1]
    products.times(x, sources, block.W_x, trace.qkf)
    if shape.lin:
        mixers.constant_matrix(block.A, shape.softmax, trace.matrix, trace.with_residual)
        mixers.mix_constant(trace.with_residual, block.b_in, n, trace.qkf, trace.hidden)
    else:
        mixers.compare_rows(trace.qkf[:, :d], trace.qkf[:, d : 2 * d], scale, n, rows, trace.weights)
        mixers.weigh(n, rows, shape.softmax, trace.weights)
        mixers.mix(trace.qkf[:, shape.f_at :], trace.weights, block.b_in, n, rows, trace.hidden)


@inlined
def mix_rows_back(n, sources, x, shape, scale, layer, d_x):
    """From the gradient of the second block's pre-activations to those of its weights and of x."""
    block, d_block, rows, trace, d_trace = layer.block, layer.d_block, layer.rows, layer.trace, layer.d_trace
    d = x.shape[1]
    if shape.lin:
        mixers.mix_constant_back(d_trace.hidden, trace.with_residual, n, trace.qkf, d_block.A, d_trace.qkf)
        mixers.constant_matrix_back(trace.matrix, shape.softmax, d_block.A)
    else:
        q, k, f = trace.qkf[:, :d], trace.qkf[:, d : 2 * d], trace.qkf[:, shape.f_at :]
        d_q, d_k, d_f = d_trace.qkf[:, :d], d_trace.qkf[:, d : 2 * d], d_trace.qkf[:, shape.f_at :]
        mixers.mix_back(d_trace.hidden, f, sources, trace.weights, n, rows, d_f, d_trace.weights)
        mixers.weigh_back(n, rows, shape.softmax, trace.weights, d_trace.weights)
        mixers.compare_rows_back(d_trace.weights, q, k, scale, sources, n, rows, d_q, d_k)
    products.transposed_times(x, sources, d_trace.qkf, d_block.W_x)
    products.transpose(block.W_x, d, trace.turned)
    products.times(d_trace.qkf, sources, trace.turned, d_x)
