"""Matrix products, handed to BLAS, and the small loops around them.

Each takes how many leading rows `n` of its operands are in use, since a batch rarely fills the rows it may need.
Loops are written out: numba compiles them in a fraction of the time of the array expressions that they replace.

`gemm` calls BLAS directly: with parts of matrices as operands and as result, which np.dot would copy.
"""

from __future__ import annotations

from typing import no_type_check

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from counting_interp.models.training.kernels.lanes import LANES, transpose_tile
from counting_interp.util.compiled import inlined

# The BLAS that scipy brings along, under names of our own: cached machine code finds the functions by name.
_NAMES = {types.float32: "counting_sgemm", types.float64: "counting_dgemm"}
for _name in _NAMES.values():
    _address = get_cython_function_address("scipy.linalg.cython_blas", _name.removeprefix("counting_"))
    llvmlite.binding.add_symbol(_name, _address)


@intrinsic
@no_type_check
def gemm(context, transpose_a, transpose_b, m, n, k, a, a_row, b, b_row, c, c_row):
    """c [m, n] = a [m, k] @ b [k, n], for matrices whose rows begin `a_row`, `b_row`, `c_row` numbers after each other.

    `transpose_a`: a is stored as [k, m]; `transpose_b`: b is stored as [n, k].
    """

    def generate(context, builder, signature, arguments):
        real, integer, letter = context.get_value_type(c.dtype), ir.IntType(32), ir.IntType(8)

        def by_reference(value):
            return cgutils.alloca_once_value(builder, value)

        def flag(value):
            return by_reference(builder.select(value, letter(ord("T")), letter(ord("N"))))

        def size(value):
            return by_reference(builder.trunc(value, integer))

        def data(kind, value):
            return context.make_array(kind)(context, builder, value).data

        ta, tb, m_, n_, k_, a_, a_row_, b_, b_row_, c_, c_row_ = arguments
        # BLAS stores by columns: it sees the transposes of our matrices, and c^T = b^T a^T.
        passed = [flag(tb), flag(ta), size(n_), size(m_), size(k_), by_reference(real(1.0))]
        passed += [data(b, b_), size(b_row_), data(a, a_), size(a_row_), by_reference(real(0.0))]
        passed += [data(c, c_), size(c_row_)]
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in passed])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, _NAMES[c.dtype]), passed)
        return context.get_dummy_value()

    flags, sizes, offset = [types.boolean] * 2, [types.intp] * 3, types.intp
    return types.void(*flags, *sizes, a, offset, b, offset, c, offset), generate


# OpenBLAS copies the operands of large products before it multiplies, which does not pay with few rows. A product of
# more multiplications than this is cut into strips of columns, if these are not narrower than NARROWEST.
LARGE, NARROWEST = 1 << 19, 64


@inlined
def row_length(a):
    """From one row of a matrix to the next, in numbers."""
    return a.strides[0] // a.itemsize


@inlined
def strip(rows, inner, columns):
    """How many columns of a product to do at once."""
    width = LARGE // (rows * inner) // NARROWEST * NARROWEST
    return width if width >= NARROWEST else columns


@inlined
def times(a, n, b, out):
    """out[:n] = a[:n] @ b"""
    inner, columns = b.shape
    width = strip(n, inner, columns)
    for at in range(0, columns, width):
        some = min(width, columns - at)
        gemm(False, False, n, some, inner, a, row_length(a), b[:, at:], row_length(b), out[:, at:], row_length(out))


@inlined
def transposed_times(a, n, b, out):
    """out = a[:n].T @ b[:n]"""
    rows, columns = a.shape[1], b.shape[1]
    width = strip(rows, n, columns)
    for at in range(0, columns, width):
        some = min(width, columns - at)
        gemm(True, False, rows, some, n, a, row_length(a), b[:, at:], row_length(b), out[:, at:], row_length(out))


@inlined
def transpose(a, n, out):
    """out[:, :n] = a[:n].T. This and a product take less time than gemm's own transposition."""
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
    """Mask `d_hidden` where `hidden` was clipped, in offset; d_bias = d_hidden[:n].sum(0)"""
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


@inlined
def add_scaled(out, factor, a):
    for i in range(len(a)):
        out[i] += factor * a[i]
