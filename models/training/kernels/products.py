"""The arithmetic of a block beside matrix products: row loops, and the mixing of rows.

Each function takes how many leading rows `n` of its operands are in use: a batch rarely fills the rows it may need.
Loops are written out: numba compiles them in a fraction of the time of the array expressions that they replace.

`dot` and `bos` models mix with weight_j = n_j score_j, or n_j exp(score_j) / Z with softmax, where n_j positions hold
source j. Weights have the shape [row, key], with keys padded to whole vectors; padding has the count 0. Scores of the
first block depend on two tokens only, so they are looked up in a table [vocab, vocab].

Hidden units are relu(f[own] + sum_j weight_j f[source_j] + b) with f = x W_in. The product with W_in commutes with the
mixing, so it is done once for each source: a token of the alphabet, or in the second block a row of the first.

`lin` models mix all sequences with one matrix. Their rows are ordered by position first, then by sequence. So the f of
a batch are one matrix [pos, sequence * hidden], and mixing is one product with (A + 1) [query, key]; 1 is the residual.
"""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels.lanes import (
    LANES,
    add,
    add_times,
    exp_down,
    fill,
    larger,
    largest_of,
    load,
    multiply,
    store,
    subtract,
    sum_of,
    transpose_tile,
)
from counting_interp.models.training.kernels.tiles import product, row_products, times, transposed_times
from counting_interp.util.compiled import inlined


@inlined
def transpose(a, n, out):
    """out[:, :n] = a[:n].T"""
    rows, columns = n // LANES * LANES, a.shape[1] // LANES * LANES
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            transpose_tile(a, i, j, out)
    for i in range(n):
        for j in range(columns if i < rows else 0, a.shape[1]):
            out[j, i] = a[i, j]


@inlined
def clear(out, n):
    """out[:n] = 0"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = out.dtype.type(0)


@inlined
def add_to_rows(out, n, a):
    """out[:n] += a, for each row"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] += a[i]


@inlined
def sum_of_rows(a, n, out):
    """out = a[:n].sum(0)"""
    for i in range(a.shape[1]):
        out[i] = out.dtype.type(0)
    for r in range(n):
        for i in range(a.shape[1]):
            out[i] += a[r, i]


@inlined
def add_and_clip(bias, n, out):
    """out[:n] = relu(out[:n] + bias)"""
    zero = out.dtype.type(0)
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = max(out[r, i] + bias[i], zero)


@inlined
def add_and_clip_back(hidden, n, d_hidden, d_bias):
    """Mask `d_hidden` where `hidden` was clipped, in place; d_bias = d_hidden[:n].sum(0)"""
    zero = hidden.dtype.type(0)
    for i in range(len(d_bias)):
        d_bias[i] = zero
    for r in range(n):
        for i in range(hidden.shape[1]):
            g = d_hidden[r, i] if hidden[r, i] > zero else zero
            d_hidden[r, i] = g
            d_bias[i] += g


@inlined
def dot(a, b):
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


NEVER = -1e30  # the score of padding: never the largest


@inlined
def look_up_scores(table, scale, n, rows, scores):
    """Scores of the first block: own token against each token of the sequence."""
    never = fill(scores.dtype.type(NEVER))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for at in range(0, scores.shape[1], LANES):
                store(never, scores[r], at)
            for j in range(rows.keys[b]):
                scores[r, j] = scale * table[own, rows.source[b, j]]


@inlined
def look_up_scores_back(d_scores, scale, n, rows, d_table):
    clear(d_table, len(d_table))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                d_table[own, rows.source[b, j]] += scale * d_scores[r, j]


@inlined
def compare_rows(q, k, k_t, scale, sources, n, rows, scores):
    """Scores of the second block: each row against all rows of its sequence, which lie one after another."""
    never = fill(scores.dtype.type(NEVER))
    transpose(k, sources, k_t)
    for b in range(n):
        begin, end, at, keys = rows.start[b], rows.start[b + 1], rows.source[b, 0], rows.keys[b]
        for r in range(begin, end):
            for lane in range(0, scores.shape[1], LANES):
                store(never, scores[r], lane)
        times(q[at:], end - begin, k_t[:, at : at + keys], scores[begin:])
        for r in range(begin, end):
            for j in range(keys):
                scores[r, j] *= scale


@inlined
def compare_rows_back(d_scores, q, k, scale, sources, n, rows, d_q, d_k):
    clear(d_q, sources)  # rows of `$` ask nothing
    for b in range(n):
        begin, end, at, keys = rows.start[b], rows.start[b + 1], rows.source[b, 0], rows.keys[b]
        for r in range(begin, end):
            for j in range(keys):
                d_scores[r, j] *= scale
        times(d_scores[begin:, :keys], end - begin, k[at : at + keys], d_q[at:])
        transposed_times(d_scores[begin:, :keys], end - begin, q[at:], d_k[at:])


@inlined
def weigh(n, rows, softmax, weights):
    """Scores to weights, in place."""
    width = weights.shape[1]
    one, zero = weights.dtype.type(1), weights.dtype.type(0)
    for b in range(n):
        counts = rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row = weights[r]
            if not softmax:
                for at in range(0, width, LANES):
                    store(multiply(load(row, at), load(counts, at)), row, at)
                continue
            most = load(row, 0)
            for at in range(LANES, width, LANES):
                most = larger(most, load(row, at))
            highest = fill(largest_of(most))
            total = fill(zero)
            for at in range(0, width, LANES):
                share = multiply(load(counts, at), exp_down(subtract(load(row, at), highest)))
                store(share, row, at)
                total = add(total, share)
            inverse = fill(one / sum_of(total))
            for at in range(0, width, LANES):
                store(multiply(load(row, at), inverse), row, at)


@inlined
def weigh_back(n, rows, softmax, weights, d_weights):
    """Gradients of weights to gradients of scores, in place."""
    width = weights.shape[1]
    zero = weights.dtype.type(0)
    for b in range(n):
        counts = rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row, d_row = weights[r], d_weights[r]
            if not softmax:
                for at in range(0, width, LANES):
                    store(multiply(load(d_row, at), load(counts, at)), d_row, at)
                continue
            product = fill(zero)
            for at in range(0, width, LANES):
                product = add_times(product, load(row, at), load(d_row, at))
            mean = fill(sum_of(product))
            for at in range(0, width, LANES):
                store(multiply(load(row, at), subtract(load(d_row, at), mean)), d_row, at)


@inlined
def mix(f, weights, bias, n, rows, hidden):
    zero = fill(hidden.dtype.type(0))
    for b in range(n):
        keys, source = rows.keys[b], rows.source[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            for at in range(0, hidden.shape[1], LANES):
                total = add(load(f[rows.own[r]], at), load(bias, at))
                for j in range(keys):
                    total = add_times(total, fill(weights[r, j]), load(f[source[j]], at))
                store(larger(zero, total), hidden[r], at)  # in this order NaN stays NaN


@inlined
def mix_back(d_mixed, f, sources, weights, n, rows, d_f, d_weights):
    """From the gradient of the pre-activations to those of f and of the weights."""
    clear(d_f, sources)
    width = d_mixed.shape[1]
    for b in range(n):
        begin, end = rows.start[b], rows.start[b + 1]
        for r in range(begin, end):
            own = d_f[rows.own[r]]
            for at in range(0, width, LANES):
                store(add(load(own, at), load(d_mixed[r], at)), own, at)
        for j in range(rows.keys[b]):
            source = rows.source[b, j]
            for r in range(begin, end):
                product = fill(f.dtype.type(0))
                for at in range(0, width, LANES):
                    product = add_times(product, load(d_mixed[r], at), load(f[source], at))
                d_weights[r, j] = sum_of(product)
            for at in range(0, width, LANES):
                total = load(d_f[source], at)
                for r in range(begin, end):
                    total = add_times(total, fill(weights[r, j]), load(d_mixed[r], at))
                store(total, d_f[source], at)


@inlined
def constant_matrix(A, softmax, matrix, with_residual):
    """The mixing matrix [query, key]: A, or its softmax by rows; and the same with 1 on the diagonal added."""
    for row in range(len(A)):
        highest = A[row, 0]
        for j in range(1, A.shape[1]):
            highest = max(highest, A[row, j])
        total = A.dtype.type(0)
        for j in range(A.shape[1]):
            matrix[row, j] = np.exp(A[row, j] - highest)
            total += matrix[row, j]
        for j in range(A.shape[1]):
            matrix[row, j] = matrix[row, j] / total if softmax else A[row, j]
            with_residual[row, j] = matrix[row, j]
        with_residual[row, row] += A.dtype.type(1)


@inlined
def constant_matrix_back(matrix, softmax, d_matrix):
    """Gradient of the mixing matrix to that of A, in place."""
    if softmax:
        for row in range(len(matrix)):
            mean = dot(matrix[row], d_matrix[row])
            for j in range(matrix.shape[1]):
                d_matrix[row, j] = matrix[row, j] * (d_matrix[row, j] - mean)


@inlined
def gather_positions(f, m, own, by_position):
    """The f of the token at each of m positions."""
    for r in range(m):
        for at in range(0, by_position.shape[1], LANES):
            store(load(f[own[r]], at), by_position[r], at)


@inlined
def gather_positions_back(d_by_position, m, own, sources, d_f):
    clear(d_f, sources)
    for r in range(m):
        to = d_f[own[r]]
        for at in range(0, d_by_position.shape[1], LANES):
            store(add(load(to, at), load(d_by_position[r], at)), to, at)


@inlined
def mix_constant(with_residual, bias, m, by_position, hidden):
    """Hidden units of m rows."""
    L = len(with_residual)
    wide = m // L * hidden.shape[1]
    product(False, L, wide, L, with_residual, L, by_position, wide, hidden, wide)
    add_and_clip(bias, m, hidden)


@inlined
def mix_constant_back(d_mixed, with_residual, m, by_position, d_matrix, d_by_position):
    """From the gradient of the pre-activations to those of the matrix and of f at each position."""
    L = len(with_residual)
    wide = m // L * d_mixed.shape[1]
    row_products(d_mixed, by_position, wide, d_matrix)
    product(True, L, wide, L, with_residual, L, d_mixed, wide, d_by_position, wide)
