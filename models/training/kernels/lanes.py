"""Sixteen numbers at a time: the vectors in which the row loops compute.

Loops of a compiler's own vectorising check at every start whether arrays overlap, and these loops are short. Here rows
are padded to whole vectors, and each operation below is one instruction of the processor, or a few.
"""

from __future__ import annotations

from typing import Any, no_type_check

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16

LOG2_E = 1.44269504
LN2_HIGH = 0.693359375  # few bits: its product with an exponent is exact
LN2_LOW = -2.12194440e-4
LOWEST = -87.0  # exp of less is no normal number
EXP_TAIL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
LOG_TAIL: tuple[float, ...] = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1)
LOG_TAIL += (1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
ROOT_2 = 1.41421356
ROOT_GUESS = 0x5F375A86
TINY = 1e-36  # half of less may be no normal number, and the square of its inverse root infinite
EXPONENT_BIAS, MANTISSA_BITS = 127, 23
# Flags of operations that must not be reordered; numba gives those of the kernels to operations without any. Reordered,
# x - n HIGH - n LOW may become x - n (HIGH + LOW), and what the two parts are there to keep is lost: where no
# instruction multiplies and adds, exp was wrong by 4e-6.
IN_ORDER = ("contract",)


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
def in_all_lanes(builder, vector, number):
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


@no_type_check
def _whole(name, vector):
    """What generates a function of LLVM's own from a vector to a vector."""

    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(vector)
        return builder.call(_built_in(builder, name, kind, kind, [kind]), arguments)

    return generate


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
        return in_all_lanes(builder, context.get_value_type(signature.return_type), arguments[0])

    return Lanes(number)(number), generate


def _lane_by_lane(operation: str) -> Any:
    """An operation of LLVM on two vectors."""

    @intrinsic
    @no_type_check
    def combine(context, a, b):
        def generate(context, builder, signature, arguments):
            return getattr(builder, operation)(*arguments)

        return a(a, b), generate

    return combine


add, subtract, multiply, divide = map(_lane_by_lane, ("fadd", "fsub", "fmul", "fdiv"))


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
        return sum_over_lanes(builder, context.get_value_type(vector), *arguments)

    return vector.dtype(vector), generate


@no_type_check
def sum_over_lanes(builder, vector, numbers):
    real = vector.element
    reduce = _built_in(builder, "llvm.vector.reduce.fadd", vector, real, [real, vector])
    return builder.call(reduce, [real(0.0), numbers], fastmath=("reassoc",))


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
    """exp(min(x, 0)), all that a softmax needs: to 2e-7 in single precision, and 0 below -87."""

    def double(context, builder, signature, arguments):
        kind = context.get_value_type(vector)
        exponential = _built_in(builder, "llvm.exp", kind, kind, [kind])
        return builder.call(exponential, [_below_zero(builder, kind, *arguments)])

    def single(context, builder, signature, arguments):
        """Cephes: exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, a polynomial for exp(r), and 2^n by its bits."""
        kind = context.get_value_type(vector)
        integers = ir.VectorType(ir.IntType(32), LANES)
        x = _below_zero(builder, kind, *arguments)
        # rounding towards zero, so to the nearest integer of a negative number
        scaled = builder.fsub(builder.fmul(x, _constant(kind, LOG2_E)), _constant(kind, 0.5))
        n = builder.fptosi(scaled, integers)
        real = builder.sitofp(n, kind)
        r = builder.fsub(x, builder.fmul(real, _constant(kind, LN2_HIGH), flags=IN_ORDER), flags=IN_ORDER)
        r = builder.fsub(r, builder.fmul(real, _constant(kind, LN2_LOW), flags=IN_ORDER), flags=IN_ORDER)
        tail = _polynomial(builder, kind, EXP_TAIL, r)
        value = builder.fadd(builder.fadd(builder.fmul(builder.fmul(tail, r), r), r), _constant(kind, 1.0))
        exponent = builder.add(n, _constant(integers, EXPONENT_BIAS))
        power = builder.bitcast(builder.shl(exponent, _constant(integers, MANTISSA_BITS)), kind)
        tiny = builder.fcmp_ordered("<", x, _constant(kind, LOWEST))
        return builder.select(tiny, _constant(kind, 0.0), builder.fmul(value, power))

    return vector(vector), single if vector.dtype == types.float32 else double


@intrinsic
@no_type_check
def log(context, vector):
    """The logarithm of positive normal numbers, to 2e-7 in single precision; NaN of NaN."""

    def single(context, builder, signature, arguments):
        """Cephes: x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and a polynomial for log(1 + f)."""
        (x,) = arguments
        kind = context.get_value_type(vector)
        integers = ir.VectorType(ir.IntType(32), LANES)
        bits = builder.bitcast(x, integers)
        power = builder.sub(builder.lshr(bits, _constant(integers, MANTISSA_BITS)), _constant(integers, EXPONENT_BIAS))
        fraction = builder.and_(bits, _constant(integers, (1 << MANTISSA_BITS) - 1))
        one = _constant(integers, EXPONENT_BIAS << MANTISSA_BITS)
        m, e = builder.bitcast(builder.or_(fraction, one), kind), builder.sitofp(power, kind)
        upper = builder.fcmp_ordered(">", m, _constant(kind, ROOT_2))
        m = builder.select(upper, builder.fmul(m, _constant(kind, 0.5)), m)
        e = builder.select(upper, builder.fadd(e, _constant(kind, 1.0)), e)
        f = builder.fsub(m, _constant(kind, 1.0))
        square = builder.fmul(f, f)
        tail = builder.fmul(builder.fmul(_polynomial(builder, kind, LOG_TAIL, f), f), square)
        tail = builder.fadd(tail, builder.fmul(e, _constant(kind, LN2_LOW)))
        tail = builder.fsub(tail, builder.fmul(square, _constant(kind, 0.5)))
        value = builder.fadd(builder.fadd(f, tail), builder.fmul(e, _constant(kind, LN2_HIGH)))
        return builder.select(builder.fcmp_ordered("ord", x, x), value, x)

    return vector(vector), single if vector.dtype == types.float32 else _whole("llvm.log", vector)


@intrinsic
@no_type_check
def root(context, vector):
    """The square root, to 2e-7 in single precision of numbers up to 1e37, and 0 below 1e-36.

    The processor's own takes longer: it waits for the unit that divides.
    """

    def single(context, builder, signature, arguments):
        """x / sqrt(x), with 1 / sqrt(x) guessed by halving the exponent and improved by three of Newton's steps."""
        (x,) = arguments
        kind = context.get_value_type(vector)
        integers = ir.VectorType(ir.IntType(32), LANES)
        halved = builder.lshr(builder.bitcast(x, integers), _constant(integers, 1))
        y = builder.bitcast(builder.sub(_constant(integers, ROOT_GUESS), halved), kind)
        half = builder.fmul(x, _constant(kind, 0.5))
        for _ in range(3):
            error = builder.fsub(_constant(kind, 1.5), builder.fmul(builder.fmul(half, y), y))
            y = builder.fmul(y, error)
        normal = builder.fcmp_unordered(">", x, _constant(kind, TINY))
        return builder.select(normal, builder.fmul(x, y), _constant(kind, 0.0))

    return vector(vector), single if vector.dtype == types.float32 else _whole("llvm.sqrt", vector)


@intrinsic
@no_type_check
def transpose_tile(context, a, i, j, out):
    """out[j : j + 16, i : i + 16] = a[i : i + 16, j : j + 16].T"""

    def generate(context, builder, signature, arguments):
        a_, i_, j_, out_ = arguments
        rows = [builder.load(place, align=a.dtype.bitwidth // 8) for place in _tile(context, builder, a, a_, i_, j_)]
        low, high = (
            ir.Constant(ir.VectorType(ir.IntType(32), LANES), [half + k // 2 + LANES * (k % 2) for k in range(LANES)])
            for half in (0, LANES // 2)
        )
        for _ in range(LANES.bit_length() - 1):  # each time, rows of the upper and lower half are interleaved
            pairs = list(zip(rows[: LANES // 2], rows[LANES // 2 :], strict=True))
            rows = [builder.shuffle_vector(x, y, half) for x, y in pairs for half in (low, high)]
        for row, place in zip(rows, _tile(context, builder, out, out_, j_, i_), strict=True):
            builder.store(row, place, align=a.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp, out), generate


@no_type_check
def _tile(context, builder, kind, matrix, i, j):
    """Where the sixteen rows of the tile of a matrix that begins at [i, j] lie."""
    array = context.make_array(kind)(context, builder, matrix)
    stride = builder.extract_value(array.strides, 0)
    start = builder.bitcast(builder.gep(array.data, [j]), ir.IntType(8).as_pointer())
    start = builder.gep(start, [builder.mul(i, stride)])
    vector = context.get_value_type(Lanes(kind.dtype)).as_pointer()
    return [
        builder.bitcast(builder.gep(start, [builder.mul(stride, ir.IntType(64)(row))]), vector) for row in range(LANES)
    ]


@no_type_check
def _below_zero(builder, kind, x):
    """min(x, 0); NaN stays NaN."""
    zero = _constant(kind, 0.0)
    return builder.select(builder.fcmp_ordered(">", x, zero), zero, x)


@no_type_check
def _polynomial(builder, kind, coefficients, x):
    value = _constant(kind, coefficients[0])
    for coefficient in coefficients[1:]:
        value = builder.fadd(builder.fmul(value, x), _constant(kind, coefficient))
    return value
