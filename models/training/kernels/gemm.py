"""The matrix product of BLAS, called directly: parts of matrices as operands and as result, which np.dot would copy."""

from __future__ import annotations

from typing import no_type_check

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

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

    flags, sizes, place = [types.boolean] * 2, [types.intp] * 3, types.intp
    return types.void(*flags, *sizes, a, place, b, place, c, place), generate
