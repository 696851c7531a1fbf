"""Matrix products, handed to BLAS, and the small loops around them.

Each takes how many leading rows `n` of its operands are in use, since a batch rarely fills the rows it may need.
Loops are written out: numba compiles them in a fraction of the time of the array expressions that they replace.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from models.training.kernels.compiling import compiled

product = partial(compiled, reference_counting=True)  # np.dot returns its result, which numba counts


@product
def times(a, n, b, out):
    """out[:n] = a[:n] @ b"""
    np.dot(a[:n], b, out[:n])


@product
def times_transposed(a, n, b, out):
    """out[:n] = a[:n] @ b.T"""
    np.dot(a[:n], b.T, out[:n])


@product
def transposed_times(a, n, b, out):
    """out = a[:n].T @ b[:n]"""
    np.dot(a[:n].T, b[:n], out)


@compiled
def transpose(a, out):
    """out = a.T. For small matrices this and `times` take less time than `times_transposed`."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]


@compiled
def clear(out, n):
    """out[:n] = 0"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = out.dtype.type(0)


@compiled
def copy_columns(a, n, start, out):
    """out[:n] = a[:n, start : start + width], with the width of `out`"""
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = a[r, start + i]


@compiled
def paste_columns(a, n, start, out):
    """out[:n, start : start + width] = a[:n], with the width of `a`"""
    for r in range(n):
        for i in range(a.shape[1]):
            out[r, start + i] = a[r, i]


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


@compiled
def add_and_clip(bias, n, out):
    """out[:n] = relu(out[:n] + bias)"""
    zero = out.dtype.type(0)
    for r in range(n):
        for i in range(out.shape[1]):
            out[r, i] = max(out[r, i] + bias[i], zero)


@compiled
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
