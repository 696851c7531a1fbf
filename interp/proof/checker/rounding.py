"""How far a model that runs in floating point can be from the real one, as upper bounds in integers.

A sum of n products computed with unit roundoff u, in any order, fused or not, is off by at most gamma_n times the sum
of their magnitudes, gamma_n = n u / (1 - n u); products with zero are exact, so n counts the others. Exponents that are
off by e_j give softmax weights right up to the factor exp(e_j + max e). Whatever is lost below the smallest normal
number is at most UNDERFLOW an operation. The largest magnitudes are those of sequences whose other places all hold one
token.

Every quantity is a non-negative integer in units of 2^-Q, rounded up.
"""

from __future__ import annotations

from operator import mul

from counting_interp.interp.proof.checker.model import Model, View
from counting_interp.interp.proof.checker.numbers import Ball, exponential, over, square_root

Q = 160
ONE = 1 << Q
UNDERFLOW = 1 << (Q - 126)
UNIT_BITS = {"float32": 24, "float64": 53}
LARGEST_BITS = {"float32": 120, "float64": 1000}
LARGEST_EXPONENT = 700
EXP_AND_DIVIDE = 10  # roundings of a softmax beside its sum: subtraction, exp to 4 ulp, division

Row = list[int]


class TooLarge(Exception):  # noqa: N818 (a reason, caught below)
    """Numbers beyond the range in which the bounds mean anything."""


def up(value: int, bits: int) -> int:
    """|value| 2^-bits in units of 2^-Q."""
    return -((-abs(value) << Q) >> bits)


def dot(a: Row, b: Row) -> int:
    return -(-sum(map(mul, a, b)) >> Q)


def scaled(factor: int, row: Row) -> Row:
    return [-(-factor * value >> Q) for value in row]


class Rounding:
    """Bounds for one model at one precision."""

    def __init__(self, model: Model, precision: str) -> None:
        self.m = model
        self.unit_bits, self.largest = UNIT_BITS[precision], ONE << LARGEST_BITS[precision]
        self.u = ONE >> self.unit_bits
        size = {name: [[up(n, bits) for n in row] for row in rows] for name, (rows, bits) in model.weights.items()}
        self.E = size["W_E"]
        self.W_in, self.W_out = _turned(size["W_in"]), _turned(size["W_out"])
        (self.b_in,), (self.b_out,) = size["b_in"], size["b_out"]
        W_out, bits = model.weights["W_out"]
        self.columns = [list(column) for column in zip(*W_out, strict=True)]
        self.out_bits = bits
        self.largest_E = [max(column) for column in zip(*self.E[: model.T], strict=True)]
        self.n_positions = model.L + (model.mixing == "bos")
        if model.mixing != "lin":
            self.score = [[up(abs(mid) + rad, model.bits) for mid, rad in row] for row in model.S]
            self.score_error = self._score_error(size["W_Q"], size["W_K"])
        else:
            self.A, self.A_bits = model.mixing_matrix()

    def gamma(self, n: int) -> int:
        return -((-n << Q) // ((1 << self.unit_bits) - n))

    def summed(self, x: Row, w: Row, extra: int = 0) -> int:
        """The error of a computed sum of x_i w_i and `extra` further terms of the same size, for exact x."""
        terms = sum(1 for a, b in zip(x, w, strict=True) if a and b) + extra
        return -(-self.gamma(terms) * dot(x, w) >> Q) + terms * UNDERFLOW

    def margins(self, view: View) -> list[int] | None:
        """For counts 1..L, in units of 2^-Q: how far a computed difference between the logit of the right class and
        another can be off. None where numbers leave the range."""
        try:
            mixed = self._mixed(view)
            peaks = _peaks(view, self.m)
            return [self._margin(k, *mixed[k - 1], peaks[k - 1]) for k in range(1, self.m.L + 1)]
        except TooLarge:
            return None

    def _margin(self, count: int, mixed: Row, error: Row, peaks: Row) -> int:
        bias = self.gamma(self.m.d + 1)
        total = list(map(int.__add__, mixed, error))
        hidden, d_hidden = [], []
        for column, b, peak in zip(self.W_in, self.b_in, peaks, strict=True):
            d_pre = dot(error, column) + self.summed(total, column, 1) + -(-bias * b >> Q)
            dead = peak + d_pre <= 0  # zero in either arithmetic
            hidden.append(0 if dead else max(peak, 0) + d_pre)
            d_hidden.append(0 if dead else d_pre)
        if max(map(dot, [hidden] * self.m.classes, self.W_out)) >= self.largest or max(total) >= self.largest:
            raise TooLarge
        bias = self.gamma(self.m.p + 1)
        own = [
            self.summed(hidden, column, 1) + -(-bias * b >> Q) for column, b in zip(self.W_out, self.b_out, strict=True)
        ]
        right = count - self.m.first_count
        worst = 0
        for c, column in enumerate(self.columns):
            if c != right:
                gaps = [up(a - b, self.out_bits) for a, b in zip(self.columns[right], column, strict=True)]
                worst = max(worst, dot(d_hidden, gaps) + own[c] + own[right])
        return worst

    def _mixed(self, view: View) -> list[tuple[Row, Row]]:
        """For every count: the magnitude of x + sum_m a_m x_m, and its error."""
        m, t = self.m, view.token
        counts = range(1, m.L + 1)
        if m.mixing == "lin":
            at = view.position or 0  # any place, where all are alike
            row = [up(abs(mid) + rad, self.A_bits) for mid, rad in self.A[at]]
            own, rest = row[at], sum(row) - row[at]
            total = [-(-own * a - rest * b >> Q) for a, b in zip(self.E[t], self.largest_E, strict=True)]
            factor = self.gamma(m.L) + (self._softmax_of(at) if m.softmax else 0)
            pairs = [(total, scaled(factor, total))] * m.L
        elif m.softmax:
            weight = m.attention(t)
            top = max(mid + rad for mid, rad in m.S[t])
            worst = max(self.score_error[t])
            gaps = [up(top - mid + rad, m.bits) + 2 * worst for mid, rad in m.S[t]]
            exponents = [e + (gap >> self.unit_bits) + 1 for e, gap in zip(self.score_error[t], gaps, strict=True)]
            factors = [self._softmax_factor(e + max(exponents)) + self.gamma(self.n_positions) for e in exponents]
            off = [scaled(factor, row) for factor, row in zip(factors, self.E, strict=True)]
            lost = [self.n_positions * -(-UNDERFLOW * e >> Q) for e in self.largest_E]
            pairs = []
            for k in counts:
                error = list(map(int.__add__, self._means(weight, off, t, k), lost))
                pairs.append((self._means(weight, self.E, t, k), error))
        else:
            gamma = self.gamma(self.n_positions)
            sizes = [scaled(s, row) for s, row in zip(self.score[t], self.E, strict=True)]
            off = [
                scaled(e - (-gamma * (s + e) >> Q), row)
                for s, e, row in zip(self.score[t], self.score_error[t], self.E, strict=True)
            ]
            pairs = [(self._sums(sizes, t, k), self._sums(off, t, k)) for k in counts]
        result = []
        for total, error in pairs:
            mixed = list(map(int.__add__, total, self.E[t]))
            result.append((mixed, [e + ((x + e) >> self.unit_bits) + 1 for x, e in zip(mixed, error, strict=True)]))
        return result

    def _sums(self, f: list[Row], t: int, k: int) -> Row:
        bos = f[self.m.T] if len(f) > self.m.T else [0] * len(f[0])
        most = map(max, *f[: self.m.T])
        return [k * own + b + (self.m.L - k) * top for own, b, top in zip(f[t], bos, most, strict=True)]

    def _means(self, weight: list[Ball], f: list[Row], t: int, k: int) -> Row:
        """The largest weighted mean of f over the places of a sequence in which t occurs k times."""
        high, low = [mid + rad for mid, rad in weight], [max(0, mid - rad) for mid, rad in weight]
        fixed, below = scaled_sum([(k * high[t], f[t])], len(f[t])), k * low[t]
        if len(f) > self.m.T:
            fixed, below = scaled_sum([(k * high[t], f[t]), (high[-1], f[-1])], len(f[t])), below + low[-1]
        rest = self.m.L - k
        means = [
            [-(-(a + rest * high[s] * b) // (below + rest * low[s])) for a, b in zip(fixed, f[s], strict=True)]
            for s in range(self.m.T)
            if s != t or rest == 0
        ]
        return list(map(max, *means)) if len(means) > 1 else means[0]

    def _softmax_of(self, position: int) -> int:
        rows, bits = self.m.weights["A"]
        exponent = (up(max(rows[position]) - min(rows[position]), bits) >> self.unit_bits) + 1
        return self._softmax_factor(2 * exponent)

    def _softmax_factor(self, exponent: int) -> int:
        """The relative error of softmax weights, their exponents and the largest one's together off by `exponent`."""
        if exponent > LARGEST_EXPONENT * ONE:
            raise TooLarge
        gamma = self.gamma(self.n_positions + EXP_AND_DIVIDE)
        mid, rad = exponential((exponent, 0), Q)
        return -(-(mid + rad - ONE) * (ONE + gamma) >> Q) + gamma

    def _score_error(self, W_Q: list[Row], W_K: list[Row]) -> list[Row]:
        E, e = self.m.weights["W_E"]
        sides = []
        for name, size in (("W_Q", W_Q), ("W_K", W_K)):
            exact, bits = self.m.weights[name]
            columns, sizes = _turned(exact), _turned(size)
            values = [[up(sum(map(mul, row, column)), e + bits) for column in columns] for row in E]
            errors = [[self.summed(row, column) for column in sizes] for row in self.E]
            sides.append((values, errors))
        (q, dq), (k, dk) = sides
        root = square_root(self.m.d, Q)
        return [[self._score_pair(*pair, root) for pair in zip(k, dk, [a] * len(k), [da] * len(k), strict=True)]
                for a, da in zip(q, dq, strict=True)]  # fmt: skip

    def _score_pair(self, k: Row, dk: Row, q: Row, dq: Row, root: Ball) -> int:
        q_all, k_all = list(map(int.__add__, q, dq)), list(map(int.__add__, k, dk))
        raw = dot(dq, k) + dot(q_all, dk) + self.summed(q_all, k_all, 2)
        mid, rad = over((raw, 0), root, Q)
        return mid + rad


def scaled_sum(terms: list[tuple[int, Row]], width: int) -> Row:
    return [sum(factor * row[j] for factor, row in terms) for j in range(width)]


def _turned(rows: list[Row]) -> list[Row]:
    return [list(column) for column in zip(*rows, strict=True)]


def _peaks(view: View, m: Model) -> list[Row]:
    """Upper bounds, with their sign, on each pre-activation over all sequences with each count, in units of 2^-Q."""
    others = [row for s, row in enumerate(view.table) if s != view.token]
    peaks = []
    if view.weights is None:
        for k in range(1, m.L + 1):
            rows = []
            for other in others:
                z = [b + (m.L - k) * v for b, v in zip(view.base[k - 1], other, strict=True)]
                D = z.pop()
                rows.append([-((-(v + view.error) << Q) // (D - view.error if v + view.error > 0 else D + view.error))
                             for v in z])  # fmt: skip
            peaks.append(list(map(max, *rows)) if len(rows) > 1 else rows[0])
        return peaks
    units = []
    for i in range(m.p):
        values = [row[i] for row in others]
        best = [max(a * max(values), a * min(values)) for a in view.weights]  # each place chooses for itself, then t
        own = [a * view.table[view.token][i] for a in view.weights]  # takes the k - 1 places where that costs least
        gains = sorted(map(int.__sub__, own, best), reverse=True)
        start = view.base[0][i] + sum(best) + (view.error << view.weight_bits)
        units.append([-((-(start + sum(gains[:k])) << Q) >> (view.bits + view.weight_bits)) for k in range(m.L)])
    return _turned(units)
