"""Sixteen numbers at a time: the vectors in which the row loops compute.

Loops of a compiler's own vectorising check at every start whether arrays overlap, and these loops are short. Here rows
are padded to whole vectors, and each operation below is one instruction of the processor, or a few.
"""

from __future__ import annotations

from typing import no_type_check

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16

LOG2_E = 1.44269504
LN2_HIGH = 0.693359375  # few bits: its product with an exponent is exact
LN2_LOW = -2.12194440e-4
LOWEST = -87.0  # exp of it is the smallest normal number, near enough
EXP_TAIL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
EXPONENT_BIAS, MANTISSA_BITS = 127, 23


def padded(size: int) -> int:
    """The length of whole vectors that hold `size` numbers."""
    return -(-size // LANES) * LANES


class Lanes(types.Type):
    """The type of a vector of LANES numbers."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    @no_type_check
    def __init__(self, manager, lanes):
        real = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(real, LANES))


@no_type_check
def _address(context, builder, kind, row, at):
    """Where the vector that begins at index `at` of a row lies."""
    start = builder.gep(context.make_array(kind)(context, builder, row).data, [at])
    return builder.bitcast(start, context.get_value_type(Lanes(kind.dtype)).as_pointer())


@no_type_check
def _all(builder, vector, number):
    """A vector of one number, sixteen times."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, first, zeros)


@no_type_check
def _constant(vector, number):
    return ir.Constant(vector, [number] * LANES)


@no_type_check
def _built_in(builder, name, vector, result, operands):
    """A function of LLVM's own on a vector type."""
    kind = f"v{LANES}f{64 if vector.element == ir.DoubleType() else 32}"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, operands), f"{name}.{kind}")


@intrinsic
@no_type_check
def load(context, row, at):
    """row[at : at + 16]"""

    def generate(context, builder, signature, arguments):
        return builder.load(_address(context, builder, row, *arguments), align=row.dtype.bitwidth // 8)

    return Lanes(row.dtype)(row, types.intp), generate


@intrinsic
@no_type_check
def store(context, vector, row, at):
    """row[at : at + 16] = vector"""

    def generate(context, builder, signature, arguments):
        value, to, index = arguments
        builder.store(value, _address(context, builder, row, to, index), align=row.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(vector, row, types.intp), generate


@intrinsic
@no_type_check
def fill(context, number):
    """One number in all lanes."""

    def generate(context, builder, signature, arguments):
        return _all(builder, context.get_value_type(signature.return_type), arguments[0])

    return Lanes(number)(number), generate


@intrinsic
@no_type_check
def add(context, a, b):
    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return a(a, b), generate


@intrinsic
@no_type_check
def subtract(context, a, b):
    def generate(context, builder, signature, arguments):
        return builder.fsub(*arguments)

    return a(a, b), generate


@intrinsic
@no_type_check
def multiply(context, a, b):
    def generate(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return a(a, b), generate


@intrinsic
@no_type_check
def add_times(context, total, a, b):
    """total + a * b"""

    def generate(context, builder, signature, arguments):
        before, x, y = arguments
        return builder.fadd(before, builder.fmul(x, y))

    return total(total, a, b), generate


@intrinsic
@no_type_check
def larger(context, a, b):
    """Lane by lane, the larger of two numbers; b's where a's is NaN."""

    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return a(a, b), generate


@intrinsic
@no_type_check
def sum_of(context, vector):
    """The sum over the lanes, in an order of its own that is always the same."""

    def generate(context, builder, signature, arguments):
        real, kind = (context.get_value_type(t) for t in (signature.return_type, vector))
        reduce = _built_in(builder, "llvm.vector.reduce.fadd", kind, real, [real, kind])
        return builder.call(reduce, [real(0.0), arguments[0]], fastmath=("reassoc",))

    return vector.dtype(vector), generate


@intrinsic
@no_type_check
def largest_of(context, vector):
    """The largest lane; anything where one is NaN."""

    def generate(context, builder, signature, arguments):
        real, kind = (context.get_value_type(t) for t in (signature.return_type, vector))
        reduce = _built_in(builder, "llvm.vector.reduce.fmax", kind, real, [kind])
        return builder.call(reduce, arguments, fastmath=("nnan",))

    return vector.dtype(vector), generate


@intrinsic
@no_type_check
def exp_down(context, vector):
    """exp(min(x, 0)), all that a softmax needs: to 2e-7 in single precision (below -87: 1.6e-38, not less)."""

    def double(context, builder, signature, arguments):
        kind = context.get_value_type(vector)
        exponential = _built_in(builder, "llvm.exp", kind, kind, [kind])
        return builder.call(exponential, [_clipped(builder, kind, arguments[0], None)])

    def single(context, builder, signature, arguments):
        """Cephes: exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, a polynomial for exp(r), and 2^n by its bits."""
        kind = context.get_value_type(vector)
        integers = ir.VectorType(ir.IntType(32), LANES)

        def times(a, b):
            return builder.fmul(a, b if isinstance(b, ir.Value) else _constant(kind, b))

        z = _clipped(builder, kind, arguments[0], LOWEST)
        # rounding towards zero, so to the nearest integer of a negative number
        n = builder.fptosi(builder.fsub(times(z, LOG2_E), _constant(kind, 0.5)), integers)
        real = builder.sitofp(n, kind)
        r = builder.fsub(builder.fsub(z, times(real, LN2_HIGH)), times(real, LN2_LOW))
        tail = _constant(kind, EXP_TAIL[0])
        for coefficient in EXP_TAIL[1:]:
            tail = builder.fadd(times(tail, r), _constant(kind, coefficient))
        polynomial = builder.fadd(builder.fadd(times(times(tail, r), r), r), _constant(kind, 1.0))
        exponent = builder.add(n, _constant(integers, EXPONENT_BIAS))
        power = builder.bitcast(builder.shl(exponent, _constant(integers, MANTISSA_BITS)), kind)
        return times(polynomial, power)

    return vector(vector), single if vector.dtype == types.float32 else double


@no_type_check
def _clipped(builder, kind, x, lowest):
    """x between `lowest`, where there is one, and 0; NaN stays NaN."""
    for sign, bound in ((">", 0.0), ("<", lowest)):
        if bound is not None:
            x = builder.select(builder.fcmp_ordered(sign, x, _constant(kind, bound)), _constant(kind, bound), x)
    return x
