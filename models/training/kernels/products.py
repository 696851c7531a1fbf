"""Matrix products, handed to BLAS, and the small loops around them.

Each takes how many leading rows `n` of its operands are in use, since a batch rarely fills the rows it may need.
Loops are written out: numba compiles them in a fraction of the time of the array expressions that they replace.
"""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled


@compiled
def times(a, n, b, out):
    """out[:n] = a[:n] @ b"""
    np.dot(a[:n], b, out[:n])


@compiled
def times_transposed(a, n, b, out):
    """out[:n] = a[:n] @ b.T"""
    np.dot(a[:n], b.T, out[:n])


@compiled
def transposed_times(a, n, b, out):
    """out = a[:n].T @ b[:n]"""
    np.dot(a[:n].T, b[:n], out)


@compiled
def clear(out, n):
    """out[:n] = 0"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = out.dtype.type(0)


@compiled
def add(out, n, a):
    """out[:n] += a[:n]"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] += a[r, i]


@compiled
def add_to_rows(out, n, a):
    """out[:n] += a, for each row"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] += a[i]


@compiled
def sum_of_rows(a, n, out):
    """out = a[:n].sum(0)"""
    for i in range(a.shape[1]):
        out[i] = out.dtype.type(0)
    for r in range(n):
        for i in range(a.shape[1]):
            out[i] += a[r, i]
