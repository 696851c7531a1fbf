"""How far a model that runs in floating point can be from the real one, by following what is executed.

For every operation two things are known: between which real values its result lies on all sequences of a cell, and how
far the executed one can be off. An operation that yields at most v in magnitude is off by at most u v + eta more than
its operands make it, whatever becomes of numbers below 2^-120. A sum is executed in some order. None of its partial
sums exceeds the sum of its positive terms or that of its negative ones. So each addition is off by at most u times the
larger of the two. Of a softmax the ratio of executed to real weights is enclosed, exp being good to 8 ulp. Every sum
goes through `Arithmetic.off`, which refuses sums whose terms add up to more than 2^100: nothing can overflow unseen.

Every quantity is an integer in units of 2^-Q, rounded outwards. eta is one unit. Here is what all cells of a model
share; `cell_rounding` goes from there to the logits.
"""

from __future__ import annotations

from operator import add, mul

from counting_interp.interp.proof.checker.model import Model, square_root

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
