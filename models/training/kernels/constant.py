"""Mixing in `lin` models: one matrix for all sequences.

Rows are ordered by position first, then by sequence, so that the f of a batch are one matrix [pos, sequence * hidden]
and mixing is one product with (A + 1) [query, key]; 1 is the residual path.
"""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels.compiling import inlined
from counting_interp.models.training.kernels.gemm import gemm
from counting_interp.models.training.kernels.lanes import LANES, add, load, store
from counting_interp.models.training.kernels.products import add_and_clip, clear, dot


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
def place(f, m, own, placed):
    """The f of the token at each of m places."""
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
def mix(with_residual, bias, n, placed, hidden):
    """Hidden units of all places of n sequences."""
    L, wide = len(with_residual), n * hidden.shape[1]
    gemm(False, False, L, wide, L, with_residual, L, placed, wide, hidden, wide)
    add_and_clip(bias, n * L, hidden)


@inlined
def mix_back(d_mixed, with_residual, n, placed, d_matrix, d_placed):
    """From the gradient of the sum (bias and ReLU are done with) to those of the matrix and of f at each place."""
    L, wide = len(with_residual), n * d_mixed.shape[1]
    gemm(False, True, L, L, wide, d_mixed, wide, placed, wide, d_matrix, L)
    gemm(True, False, L, wide, L, with_residual, L, d_mixed, wide, d_placed, wide)
