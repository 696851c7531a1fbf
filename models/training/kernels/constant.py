"""Mixing weights of `lin` models: one matrix for all sequences, summed over the positions at which a source stands."""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled
from models.training.kernels.products import clear, dot


@compiled
def constant_matrix(A, softmax, out):
    """The mixing matrix [query, key]: A, or its softmax by rows."""
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
def constant_weights(matrix, n, rows, weights):
    """[row, key], one row for each position."""
    L = len(matrix)
    for b in range(n):
        places, keys = rows.places[b], rows.keys[b]
        for pos in range(L):
            row = weights[rows.start[b] + pos]
            for j in range(keys):
                row[j] = row.dtype.type(0)
            for m in range(L):
                row[places[m]] += matrix[pos, m]


@compiled
def constant_weights_back(d_weights, n, rows, d_matrix):
    L = len(d_matrix)
    clear(d_matrix, L)
    for b in range(n):
        places = rows.places[b]
        for pos in range(L):
            row = d_weights[rows.start[b] + pos]
            for m in range(L):
                d_matrix[pos, m] += row[places[m]]
