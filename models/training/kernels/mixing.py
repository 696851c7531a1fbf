"""Token mixing on the rows of a plan, forwards and backwards.

With q = x W_Q, k = x W_K and f = x W_in, a row of hidden units is

    relu(b_in + f[own] + sum_j weight_j f[source_j]),    weight_j = n_j score_j   or   n_j exp(score_j) / Z,

because the feed-forward layer's first product commutes with the mixing. n_j is the count of source j.

Shapes: f [source, d_mlp]; weights and their gradients [row, key]; hidden [row, d_mlp].
"""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import LANES, compiled
from models.training.kernels.products import clear


@compiled
def look_up_scores(table, scale, n, rows, weights):
    """Scores of the first block: they depend on two tokens only, so they are a table [vocab, vocab]."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for j in range(rows.keys[b]):
                weights[r, j] = scale * table[rows.own[r], rows.source[b, j]]


@compiled
def look_up_scores_back(d_weights, scale, n, rows, d_table):
    clear(d_table, len(d_table))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for j in range(rows.keys[b]):
                d_table[rows.own[r], rows.source[b, j]] += scale * d_weights[r, j]


@compiled
def compare_rows(q, k, scale, n, rows, weights):
    """Scores of the second block: every row with every other of its sequence."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for j in range(rows.keys[b]):
                weights[r, j] = scale * dot(q[rows.own[r]], k[rows.source[b, j]])


@compiled
def compare_rows_back(d_weights, q, k, scale, n, rows, d_q, d_k):
    """Adds to the gradients of q and k."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for j in range(rows.keys[b]):
                g = scale * d_weights[r, j]
                add_scaled(d_q[rows.own[r]], g, k[rows.source[b, j]])
                add_scaled(d_k[rows.source[b, j]], g, q[rows.own[r]])


@compiled
def constant_weights(matrix, n, rows, weights):
    """`lin`: row l of the mixing matrix, summed over the positions at which each source stands."""
    L = matrix.shape[0]
    for b in range(n):
        for pos in range(L):
            r = rows.start[b] + pos
            for j in range(rows.keys[b]):
                weights[r, j] = weights.dtype.type(0)
            for m in range(L):
                weights[r, rows.places[b, m]] += matrix[pos, m]


@compiled
def constant_weights_back(d_weights, n, rows, d_matrix):
    L = d_matrix.shape[0]
    clear(d_matrix, L)
    for b in range(n):
        for pos in range(L):
            r = rows.start[b] + pos
            for m in range(L):
                d_matrix[pos, m] += d_weights[r, rows.places[b, m]]


@compiled
def weigh(n, rows, softmax, weights):
    """Scores to weights, in place: times n_j, or softmax(score_j + log n_j)."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            if not softmax:
                for j in range(rows.keys[b]):
                    weights[r, j] *= weights.dtype.type(rows.counts[b, j])
                continue
            highest = weights[r, 0]
            for j in range(1, rows.keys[b]):
                highest = max(highest, weights[r, j])
            total = weights.dtype.type(0)
            for j in range(rows.keys[b]):
                weights[r, j] = weights.dtype.type(rows.counts[b, j]) * np.exp(weights[r, j] - highest)
                total += weights[r, j]
            inverse = weights.dtype.type(1) / total
            for j in range(rows.keys[b]):
                weights[r, j] *= inverse


@compiled
def weigh_back(n, rows, softmax, weights, d_weights):
    """Gradients of weights to gradients of scores, in place."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            if not softmax:
                for j in range(rows.keys[b]):
                    d_weights[r, j] *= weights.dtype.type(rows.counts[b, j])
                continue
            mean = weights.dtype.type(0)
            for j in range(rows.keys[b]):
                mean += weights[r, j] * d_weights[r, j]
            for j in range(rows.keys[b]):
                d_weights[r, j] = weights[r, j] * (d_weights[r, j] - mean)


@compiled
def mix(f, b_in, weights, n, rows, hidden):
    """Hidden units of every row."""
    zero = hidden.dtype.type(0)
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for lane in range(0, hidden.shape[1], LANES):
                for i in range(lane, lane + LANES):
                    hidden[r, i] = b_in[i] + f[rows.own[r], i]
                for j in range(rows.keys[b]):
                    weight = weights[r, j]
                    source = rows.source[b, j]
                    for i in range(lane, lane + LANES):
                        hidden[r, i] += weight * f[source, i]
                for i in range(lane, lane + LANES):
                    hidden[r, i] = max(hidden[r, i], zero)


@compiled
def mix_back(d_hidden, hidden, f, weights, n, rows, d_f, d_b_in, d_weights):
    """From the gradient of the hidden units to those of f (added to), b_in and the weights. Masks `d_hidden`."""
    zero = hidden.dtype.type(0)
    for i in range(len(d_b_in)):
        d_b_in[i] = zero
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for i in range(hidden.shape[1]):
                d_hidden[r, i] = d_hidden[r, i] if hidden[r, i] > zero else zero
                d_b_in[i] += d_hidden[r, i]
                d_f[own, i] += d_hidden[r, i]
            for j in range(rows.keys[b]):
                source = rows.source[b, j]
                add_scaled(d_f[source], weights[r, j], d_hidden[r])
                d_weights[r, j] = dot(d_hidden[r], f[source])


@compiled
def constant_matrix(A, softmax, out):
    """The mixing matrix of `lin` [query, key]: A, or its softmax by rows."""
    for row in range(len(A)):
        highest = A[row, 0]
        for j in range(1, A.shape[1]):
            highest = max(highest, A[row, j])
        total = A.dtype.type(0)
        for j in range(A.shape[1]):
            out[row, j] = np.exp(A[row, j] - highest)
            total += out[row, j]
        for j in range(A.shape[1]):
            out[row, j] = out[row, j] / total if softmax else A[row, j]


@compiled
def constant_matrix_back(out, softmax, d_out):
    """Gradient of the mixing matrix to that of A, in place."""
    if softmax:
        for row in range(len(out)):
            mean = dot(out[row], d_out[row])
            for j in range(out.shape[1]):
                d_out[row, j] = out[row, j] * (d_out[row, j] - mean)


@compiled
def scale(x):
    """1 / sqrt(d), by which scores are scaled, in the precision of x [source, d_model]."""
    return x.dtype.type(1.0 / np.sqrt(x.shape[1]))


@compiled
def dot(a, b):
    total = a.dtype.type(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def add_scaled(out, factor, a):
    for i in range(len(a)):
        out[i] += factor * a[i]
