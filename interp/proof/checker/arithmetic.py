"""How far a model that runs in floating point can be from the real one, by following what is executed.

For every operation two things are known: between which real values its result lies on all sequences of a cell, and how
far the executed one can be off. An operation that yields at most v in magnitude is off by at most u v + eta more than
its operands make it, whatever becomes of numbers below 2^-120. A sum is executed in some order; none of its partial
sums exceeds the sum of its positive terms or that of its negative ones, so each addition is off by at most u times the
larger of the two. Of a softmax the ratio of executed to real weights is enclosed, exp being good to 8 ulp. Every sum
goes through `Arithmetic.off`, which refuses sums whose terms add up to more than 2^100: nothing can overflow unseen.

Every quantity is an integer in units of 2^-Q, rounded outwards. eta is one unit. Here is what all cells of a model
share; `cell_rounding` goes from there to the logits. Reals are balls with integer centres: (mid, rad) at `bits` stands
for some x with |x 2^bits - mid| <= rad.
"""

from __future__ import annotations

from math import isqrt
from operator import add, mul

from counting_interp.interp.proof.checker.model import Model

Q = 120
ONE = 1 << Q
LIMIT = ONE << 100
UNIT_BITS = {"float32": 24, "float64": 53}
EXP_ULP = 8

Row = list[int]
Projected = tuple[Row, Row, Row, Row, int]


class TooLarge(Exception):  # noqa: N818 (a reason, caught in `check`)
    """Numbers outside the range in which the bounds mean anything."""


def ceil(value: int, bits: int) -> int:
    """value 2^-bits in units of 2^-Q, rounded up; `-ceil(-value, bits)` rounds down."""
    return -((-value << Q) >> bits)


def dot(a: Row, b: Row) -> int:
    return -(-sum(map(mul, a, b)) >> Q)


def outwards(high: Row, low: Row) -> tuple[Row, Row]:
    """The sum and the difference of the positive part of `high` and the negative part of `low`."""
    up, down = [max(v, 0) for v in high], [max(-v, 0) for v in low]
    return list(map(add, up, down)), [a - b for a, b in zip(up, down, strict=True)]


def mask(row: Row) -> int:
    """A bit for each entry that is not zero."""
    return sum(1 << i for i, n in enumerate(row) if n)


class Arithmetic:
    """One precision."""

    def __init__(self, precision: str) -> None:
        self.bits = UNIT_BITS[precision]

    def unit(self, value: int) -> int:
        """u times a magnitude, and eta."""
        return (value >> self.bits) + 2

    def off(self, plus: int, minus: int, products: int, additions: int) -> int:
        """What executing a sum adds to its error.

        plus, minus: bounds on the sums of its positive and of its negative terms, as executed.
        """
        total = plus + minus
        if total >= LIMIT:
            raise TooLarge
        once = self.unit(total) + 2 * products + additions * self.unit(max(plus, minus))
        return once + (2 * additions * once >> self.bits) + 1  # additions also see what was lost before them


class Columns:
    """A matrix that rows are multiplied by: magnitudes and values of its columns."""

    def __init__(self, rows: list[Row], bits: int) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)]
        self.size = [[ceil(abs(n), bits) for n in column] for column in columns]
        self.value = [[(n << Q) >> bits for n in column] for column in columns]
        self.masks = [mask(column) for column in columns]

    def terms(self, i: int, nonzero: int) -> int:
        """How many products are not zero, of a row with these nonzero entries and column i."""
        return (self.masks[i] & nonzero).bit_count()

    def parts(self, i: int, both: Row, net: Row) -> tuple[int, int]:
        """Bounds on the positive and the negative terms of a row times column i. The row lies between bounds whose
        parts have the sum `both` and the difference `net`."""
        size, value = dot(both, self.size[i]), sum(map(mul, net, self.value[i]))
        slack = (sum(both) >> Q) + 2  # values were rounded down
        return (size + (value >> Q)) // 2 + slack, (size - (value >> Q)) // 2 + slack


class Rounding:
    """Bounds for one model at one precision."""

    def __init__(self, model: Model, precision: str) -> None:
        self.m, self.arithmetic = model, Arithmetic(precision)
        E, e = model.weights["W_E"]
        self.high = [[ceil(n, e) for n in row] for row in E]
        self.low = [[-ceil(-n, e) for n in row] for row in E]
        self.size = [[ceil(abs(n), e) for n in row] for row in E]
        self.largest = [max(column) for column in zip(*self.size, strict=True)]
        self.used = mask(self.largest)
        self.W_in = Columns(*model.weights["W_in"])
        self.W_out = Columns(*model.weights["W_out"])
        self.b_in, self.b_out = (self._bias(name) for name in ("b_in", "b_out"))
        self.gaps = self._gaps()
        self.n_positions = model.L + (model.mixing == "bos")
        if model.mixing == "lin":
            self.A, self.A_bits = model.mixing_matrix()
        else:
            self.score = [[ceil(abs(mid) + rad, model.bits) for mid, rad in row] for row in model.S]
            self.score_error = self._score_errors()

    def _bias(self, name: str) -> list[tuple[int, int]]:
        """Positive and negative part of each."""
        (row,), bits = self.m.weights[name]
        return [(ceil(max(n, 0), bits), ceil(max(-n, 0), bits)) for n in row]

    def _gaps(self) -> list[list[Row]]:
        """|W_out[:, a] - W_out[:, b]| for all pairs of classes."""
        rows, bits = self.m.weights["W_out"]
        columns = [list(column) for column in zip(*rows, strict=True)]
        return [[[ceil(abs(x - y), bits) for x, y in zip(a, b, strict=True)] for b in columns] for a in columns]

    # --- scores ------------------------------------------------------------------------------------------------

    def _score_errors(self) -> list[Row]:
        """How far each executed score can be off, seen from each token."""
        q, k = (self._projected(*pair) for pair in (("W_Q", self.m.queries), ("W_K", self.m.keys)))
        root, _ = square_root(self.m.d, Q)
        return [
            [self._score_error(a, b, size, root) for b, size in zip(k, sizes, strict=True)]
            for a, sizes in zip(q[: self.m.T], self.score, strict=False)
        ]

    def _projected(self, name: str, real: tuple[list[Row], int]) -> list[Projected]:
        """Queries or keys of each token: their magnitudes, errors, as executed the sum and the difference of positive
        and negative parts, and which of them are sums of anything."""
        columns = Columns(*self.m.weights[name])
        values, bits = real
        rows = []
        for high, low, exact in zip(self.high, self.low, values, strict=True):
            both, net = outwards(high, low)
            nonzero = mask(both)
            terms = [columns.terms(i, nonzero) for i in range(self.m.d)]
            errors = [self.arithmetic.off(*columns.parts(i, both, net), n, n - 1) if n else 0
                      for i, n in enumerate(terms)]  # fmt: skip
            size = [ceil(abs(n), bits) for n in exact]
            ends = [ceil(n, bits) for n in exact]
            parts = outwards(list(map(add, ends, errors)), [v - 1 - e for v, e in zip(ends, errors, strict=True)])
            rows.append((size, errors, *parts, mask(terms)))
        return rows

    def _score_error(self, query: Projected, key: Projected, score: int, root: int) -> int:
        (q, dq, q_both, q_net, q_mask), (k, dk, k_both, k_net, k_mask) = query, key
        terms = (q_mask & k_mask).bit_count()
        if not terms:
            return 0
        carried = dot(dq, k) + dot(list(map(add, q, dq)), dk)
        size, value = dot(q_both, k_both), sum(map(mul, q_net, k_net)) >> Q
        off = self.arithmetic.off((size + value) // 2 + 2, (size - value) // 2 + 2, terms, terms - 1)
        divided = -(-((carried + off) << Q) // root)
        return divided + 3 * self.arithmetic.unit(score + divided)  # the root is rounded, inverted and multiplied by

    # --- softmax -----------------------------------------------------------------------------------------------

    def deviations(self, exponents: Row) -> Row:
        """By how much executed softmax weights can differ from the real ones, relatively, if the exponents of exp are
        off by at most `exponents`. What is lost below 2^-120 comes on top."""
        if max(exponents) > ONE // 4:
            raise TooLarge
        exp = 2 * EXP_ULP * (ONE >> self.arithmetic.bits) + 1
        low = [((ONE - e) * (ONE - exp) >> Q) - 1 for e in exponents]
        high = [-(-(ONE + exp) * ONE // (ONE - e)) + 1 for e in exponents]  # exp(e) < 1 / (1 - e)
        sums = self.n_positions * ((ONE >> self.arithmetic.bits) + 4)  # n - 1 additions, each below (1 + u)
        least, most = (min(low) * (ONE - sums) >> Q) - sums, -(-max(high) * (ONE + sums) >> Q) + sums
        division = 3 * (ONE >> self.arithmetic.bits)
        upper = [-(-a * (ONE + division) // least) for a in high]
        lower = [a * (ONE - division) // most for a in low]
        return [max(a - ONE, ONE - b) + 1 for a, b in zip(upper, lower, strict=True)]

    def losing(self, deviation: int) -> int:
        """What a weight with this relative deviation loses, and what multiplying by it and adding up lose."""
        return deviation + self.n_positions * (((ONE + deviation) >> self.arithmetic.bits) + 1)


Ball = tuple[int, int]
GUARD = 64


def times(a: Ball, b: Ball, bits: int) -> Ball:
    rad = abs(a[0]) * b[1] + abs(b[0]) * a[1] + a[1] * b[1]
    return (a[0] * b[0]) >> bits, (rad >> bits) + 2


def plus(a: Ball, b: Ball) -> Ball:
    return a[0] + b[0], a[1] + b[1]


def over(a: Ball, b: Ball, bits: int) -> Ball:
    """a / b for b > 0."""
    if b[0] <= b[1]:
        raise ZeroDivisionError("a denominator may be zero")
    ends = [((a[0] + sign * a[1]) << bits, b[0] + other * b[1]) for sign in (-1, 1) for other in (-1, 1)]
    low, high = min(n // m for n, m in ends), max(-(-n // m) for n, m in ends)
    mid = (low + high) // 2
    return mid, high - mid


def rescaled(a: Ball, have: int, want: int) -> Ball:
    """The same number at another scale; going to a coarser one costs a unit."""
    if want >= have:
        return a[0] << (want - have), a[1] << (want - have)
    return a[0] >> (have - want), (a[1] >> (have - want)) + 2


def square_root(n: int, bits: int) -> Ball:
    root = isqrt(n << (2 * bits))
    return root, int(root * root != n << (2 * bits))


def exponential(x: Ball, bits: int) -> Ball:
    """exp(x) = exp(x / 2^j)^(2^j), with |x| / 2^j < 2^-8, where the series to the n-th term is off by less than twice
    the next one."""
    halvings = max(0, (abs(x[0]) >> bits).bit_length() + 8)
    fine = bits + GUARD + halvings + 2 * max(0, x[0] >> bits)  # a large result has a large error
    r = rescaled(x, bits, fine)
    r = r[0] >> halvings, (r[1] >> halvings) + 1
    total = term = (1 << fine, 0)
    n = 0
    while term[0]:
        n += 1
        term = times(term, r, fine)
        term = term[0] // n, term[1] // n + 1
        total = plus(total, term)
        if abs(term[0]) <= term[1]:
            break
    total = total[0], total[1] + 2 * (abs(term[0]) + term[1])
    for _ in range(halvings):
        total = times(total, total, fine)
    return rescaled(total, fine, bits)
