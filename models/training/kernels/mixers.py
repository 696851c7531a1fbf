"""Mixing weights of `dot` and `bos` models: for each row, how much of each source of its sequence it takes up.

weight_j = n_j score_j, or n_j exp(score_j) / Z with softmax: n_j positions hold source j. Shapes: [row, key], keys
padded to whole vectors; padding has the count 0.
The scores of the first block depend on two tokens only, so they are looked up in a table [vocab, vocab].

Hidden units of `dot` and `bos` models: relu(f[own] + sum_j weight_j f[source_j] + b), f = x W_in.

The feed-forward layer's first product commutes with the mixing. So it was done before, once for each source: a token of
the alphabet in the first block, a row of the first block in the second.

Mixing in `lin` models: one matrix for all sequences.

Rows are ordered by position first, then by sequence. So the f of a batch are one matrix [pos, sequence * hidden] and
mixing is one product with (A + 1) [query, key]; 1 is the residual path.
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
)
from counting_interp.models.training.kernels.products import add_and_clip, add_scaled, clear, dot, gemm
from counting_interp.util.compiled import inlined

NEVER = -1e30  # the score of padding: never the largest


@inlined
def scale(d, like):
    """1 / sqrt(d), by which scores are scaled, in the precision of `like`."""
    return like.dtype.type(1.0 / np.sqrt(d))


@inlined
def look_up_scores(table, scale, n, rows, scores):
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
def compare_rows(q, k, scale, n, rows, scores):
    """Scores of the second block: every row with every other of its sequence."""
    never = fill(scores.dtype.type(NEVER))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for at in range(0, scores.shape[1], LANES):
                store(never, scores[r], at)
            for j in range(rows.keys[b]):
                scores[r, j] = scale * dot(q[rows.own[r]], k[rows.source[b, j]])


@inlined
def compare_rows_back(d_scores, q, k, scale, sources, n, rows, d_q, d_k):
    clear(d_q, sources)
    clear(d_k, sources)
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                source = rows.source[b, j]
                g = scale * d_scores[r, j]
                add_scaled(d_q[own], g, k[source])
                add_scaled(d_k[source], g, q[own])


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
    """From the gradient of the sum above (bias and ReLU are done with) to those of f and of the weights."""
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
def gather(f, m, own, placed):
    """The f of the token at each of m positions."""
    for r in range(m):
        for at in range(0, placed.shape[1], LANES):
            store(load(f[own[r]], at), placed[r], at)


@inlined
def place_back(d_placed, m, own, sources, d_f):
    clear(d_f, sources)
    for r in range(m):
        to = d_f[own[r]]
        for at in range(0, d_placed.shape[1], LANES):
            store(add(load(to, at), load(d_placed[r], at)), to, at)


@inlined
def mix_constant(with_residual, bias, n, placed, hidden):
    """Hidden units of all positions of n sequences."""
    L, wide = len(with_residual), n * hidden.shape[1]
    gemm(False, False, L, wide, L, with_residual, L, placed, wide, hidden, wide)
    add_and_clip(bias, n * L, hidden)


@inlined
def mix_constant_back(d_mixed, with_residual, n, placed, d_matrix, d_placed):
    """From the gradient of the sum (bias and ReLU are done with) to those of the matrix and of f at each position."""
    L, wide = len(with_residual), n * d_mixed.shape[1]
    gemm(False, True, L, L, wide, d_mixed, wide, placed, wide, d_matrix, L)
    gemm(True, False, L, wide, L, with_residual, L, d_mixed, wide, d_placed, wide)
