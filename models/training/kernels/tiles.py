"""Products of small matrices, tile by tile: the sums of a tile stay in registers while the inner index runs.

Nothing is packed or copied: a BLAS does that, and it does not pay for matrices of this size. Each number of `product`
is one chain of multiplications and additions in the order of the inner index, so its bits depend neither on the tiles
nor on a library.

A tile has as many sums as fit: processors with AVX-512 have 32 registers for sixteen numbers, others 16 for eight.
"""

from __future__ import annotations

from typing import Any, no_type_check

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from counting_interp.models.training.kernels.lanes import LANES, in_all_lanes, sum_over_lanes
from counting_interp.util.compiled import compiled, inlined

TALL, LOW = 8, 6  # rows of a tile with AVX-512, two vectors wide, and without, one vector wide; half of it for doubles
BLOCK, SMALL = 4, 2  # rows of both matrices in a block of `row_products`, with AVX-512 and without
INDEX, BYTE = ir.IntType(64), 8


@no_type_check
def _has_long_registers(context):
    return "+avx512f" in context.codegen().magic_tuple()[2]


@intrinsic
@no_type_check
def long_registers(context):
    """Whether the processor has AVX-512."""

    def generate(context, builder, signature, arguments):
        return ir.IntType(1)(_has_long_registers(context))

    return types.boolean(), generate


@intrinsic
@no_type_check
def start_of(context, a):
    """The address of an array's first number. Of arrays and slices of all kinds it has the same type."""

    def generate(context, builder, signature, arguments):
        return context.make_array(a)(context, builder, *arguments).data

    return types.CPointer(a.dtype)(a), generate


@intrinsic
@no_type_check
def after(context, start, numbers):
    """The address so many numbers further on."""

    def generate(context, builder, signature, arguments):
        return builder.gep(*arguments[:1], arguments[1:])

    return start(start, types.intp), generate


@no_type_check
def _sums(builder, vector, steps, rows, columns, vectors_at):
    """sum over steps of x_i * y_j, lane by lane, as vectors [i][j]; `vectors_at(step)` are all x and all y."""
    zero = ir.Constant(vector, [0.0] * LANES)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(columns)] for _ in range(rows)]
    with cgutils.for_range(builder, steps) as loop:
        x, y = vectors_at(loop.index)
        for i, row in enumerate(sums):
            for j, total in enumerate(row):
                builder.store(builder.fadd(builder.load(total), builder.fmul(x[i], y[j])), total)
    return [[builder.load(total) for total in row] for row in sums]


def _strip(vectors: int, whole: bool) -> Any:
    """A function that computes so many vectors of all rows of a product, or the first lanes of one vector."""

    @intrinsic
    @no_type_check
    def strip(context, m, inner, columns, a, a_row, a_step, b, b_row, c, c_row):
        """c[:m] = a @ b for the columns of this strip: a [i, k] lies at i * a_row + k * a_step."""

        def generate(context, builder, signature, arguments):
            m, inner, columns, a, a_row, a_step, b, b_row, c, c_row = arguments
            real = a.type.pointee
            vector, size = ir.VectorType(real, LANES), signature.args[3].dtype.bitwidth
            load, store = _whole(builder, vector, size) if whole else _first(builder, vector, size, columns)

            def tile(height, i):
                a_at, c_at = (builder.gep(p, [builder.mul(i, row)]) for p, row in ((a, a_row), (c, c_row)))
                down = [builder.mul(a_row, INDEX(r)) for r in range(height)]

                def vectors_at(k):
                    b_at = builder.gep(b, [builder.mul(k, b_row)])
                    y = [load(builder.gep(b_at, [INDEX(LANES * v)])) for v in range(vectors)]
                    column = builder.gep(a_at, [builder.mul(k, a_step)])
                    return [in_all_lanes(builder, vector, builder.load(builder.gep(column, [r]))) for r in down], y

                for r, row in enumerate(_sums(builder, vector, inner, height, vectors, vectors_at)):
                    to = builder.gep(c_at, [builder.mul(c_row, INDEX(r))])
                    for v, total in enumerate(row):
                        store(total, builder.gep(to, [INDEX(LANES * v)]))

            tall = (TALL if _has_long_registers(context) else LOW) * 32 // size
            with cgutils.for_range(builder, builder.sdiv(m, INDEX(tall))) as loop:
                tile(tall, builder.mul(loop.index, INDEX(tall)))
            left = builder.srem(m, INDEX(tall))
            for height in (4, 2, 1):  # the rows that are left, by the digits of their number
                if height < tall:
                    with builder.if_then(builder.trunc(builder.udiv(left, INDEX(height)), ir.IntType(1))):
                        tile(height, builder.sub(m, builder.and_(left, INDEX(2 * height - 1))))
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, n, n, a, n, n, b, n, c, n), generate

    return strip


@no_type_check
def _whole(builder, vector, size):
    """What loads and what stores a vector at a pointer to its first number."""
    align = size // BYTE

    def load(at):
        return builder.load(builder.bitcast(at, vector.as_pointer()), align=align)

    def store(value, at):
        builder.store(value, builder.bitcast(at, vector.as_pointer()), align=align)

    return load, store


@no_type_check
def _first(builder, vector, size, number):
    """The same for the first `number` lanes: the others are 0, and stay as they are in memory."""
    integers, mask = ir.VectorType(INDEX, LANES), ir.VectorType(ir.IntType(1), LANES)
    chosen = builder.icmp_signed(
        "<", ir.Constant(integers, list(range(LANES))), in_all_lanes(builder, integers, number)
    )
    pointer, align = vector.as_pointer(), ir.IntType(32)(size // BYTE)
    kind = f"v{LANES}f{size}.p0v{LANES}f{size}"
    load_type = ir.FunctionType(vector, [pointer, ir.IntType(32), mask, vector])
    store_type = ir.FunctionType(ir.VoidType(), [vector, pointer, ir.IntType(32), mask])
    masked_load = cgutils.get_or_insert_function(builder.module, load_type, f"llvm.masked.load.{kind}")
    masked_store = cgutils.get_or_insert_function(builder.module, store_type, f"llvm.masked.store.{kind}")

    def load(at):
        zero = ir.Constant(vector, [0.0] * LANES)
        return builder.call(masked_load, [builder.bitcast(at, pointer), align, chosen, zero])

    def store(value, at):
        builder.call(masked_store, [value, builder.bitcast(at, pointer), align, chosen])

    return load, store


_two_vectors, _one_vector, _part_of_one = _strip(2, True), _strip(1, True), _strip(1, False)


@compiled
def _product(m, n, inner, a, a_row, a_step, b, b_row, c, c_row):
    at = 0
    if long_registers():
        for _ in range(n // (2 * LANES)):
            _two_vectors(m, inner, n, a, a_row, a_step, after(b, at), b_row, after(c, at), c_row)
            at += 2 * LANES
    for _ in range((n - at) // LANES):
        _one_vector(m, inner, n, a, a_row, a_step, after(b, at), b_row, after(c, at), c_row)
        at += LANES
    if at < n:
        _part_of_one(m, inner, n - at, a, a_row, a_step, after(b, at), b_row, after(c, at), c_row)


@inlined
def product(transposed, m, n, inner, a, a_row, b, b_row, c, c_row):
    """c [m, n] = a [m, inner] @ b [inner, n]; rows begin `a_row`, `b_row`, `c_row` numbers after each other.

    `transposed`: a is stored as [inner, m].
    """
    next_row, step = (1, a_row) if transposed else (a_row, 1)
    _product(m, n, inner, start_of(a), next_row, step, start_of(b), b_row, start_of(c), c_row)


@inlined
def row_length(a):
    """From one row of a matrix to the next, in numbers."""
    return a.strides[0] // a.itemsize


@inlined
def times(a, n, b, out):
    """out[:n] = a[:n] @ b"""
    inner, columns = b.shape
    product(False, n, columns, inner, a, row_length(a), b, row_length(b), out, row_length(out))


@inlined
def transposed_times(a, n, b, out):
    """out = a[:n].T @ b[:n]"""
    product(True, a.shape[1], b.shape[1], n, a, row_length(a), b, row_length(b), out, row_length(out))


def _block(height: int) -> Any:
    """A function that computes so many rows and columns of a @ b.T."""

    @intrinsic
    @no_type_check
    def block(context, wide, a, b, c, c_row):
        """c[i, j] = a[i] . b[j], rows of `wide` numbers, which are whole vectors."""

        def generate(context, builder, signature, arguments):
            wide, a, b, c, c_row = arguments
            real = a.type.pointee
            vector = ir.VectorType(real, LANES)
            load, _ = _whole(builder, vector, signature.args[1].dtype.bitwidth)

            def vectors_at(step):
                at = builder.mul(step, INDEX(LANES))
                starts = [builder.add(at, builder.mul(wide, INDEX(r))) for r in range(height)]
                return ([load(builder.gep(p, [start])) for start in starts] for p in (a, b))

            steps = builder.sdiv(wide, INDEX(LANES))
            for i, totals in enumerate(_sums(builder, vector, steps, height, height, vectors_at)):
                for j, total in enumerate(totals):
                    at = builder.add(builder.mul(c_row, INDEX(i)), INDEX(j))
                    builder.store(sum_over_lanes(builder, vector, total), builder.gep(c, [at]))
            return context.get_dummy_value()

        n = types.intp
        return types.void(n, a, b, c, n), generate

    return block


_large_block, _small_block, _single = _block(BLOCK), _block(SMALL), _block(1)


@compiled
def _row_products(n, wide, a, b, c, c_row):
    """Where blocks do not fit, the last begins earlier."""
    height = 1 if n < SMALL else BLOCK if long_registers() and n >= BLOCK else SMALL
    for first in range(0, n, height):
        i = min(first, n - height)
        for next_first in range(0, n, height):
            j = min(next_first, n - height)
            a_i, b_j, to = after(a, i * wide), after(b, j * wide), after(c, i * c_row + j)
            if height == BLOCK:
                _large_block(wide, a_i, b_j, to, c_row)
            elif height == SMALL:
                _small_block(wide, a_i, b_j, to, c_row)
            else:
                _single(wide, a_i, b_j, to, c_row)


@inlined
def row_products(a, b, wide, out):
    """out [n, n] = a @ b.T, of the first n * `wide` numbers of both; `wide` is a number of whole vectors."""
    _row_products(len(out), wide, start_of(a), start_of(b), start_of(out), row_length(out))
