"""What floating point may lose in one cell: from the mixed token to the difference of two logits.

The mixed token of all sequences of a cell lies between bounds that are taken where its other positions all hold one
token. See `rounding` for the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import add

from counting_interp.interp.proof.checker.model import View
from counting_interp.interp.proof.checker.rounding import LIMIT, Q, Rounding, Row, TooLarge, ceil, dot, outwards

WEIGHT_BITS = 80  # of softmax weights


class ViewBounds:
    """Bounds for one view: over all counts at once, which is quick, or for one."""

    def __init__(self, rounding: Rounding, view: View) -> None:
        self.r, self.m, self.view, self.t = rounding, rounding.m, view, view.token

    def at_all_counts(self) -> int | None:
        """How far the difference of two executed logits can be off; None where this look is too coarse."""
        try:
            high, low, error = self._any_mixed()
            return max(self._needed(range(1, self.m.L + 1), high, low, error, None))
        except TooLarge:
            return None

    def at(self, count: int) -> int:
        """The same, of the right class and another, where the token occurs `count` times. Raises TooLarge."""
        (needed,) = self._needed([count], *self._mixed(count), self._peaks(count))
        return needed

    # --- from the mixed token to the logits --------------------------------------------------------------------

    def _needed(self, counts: range | list[int], high: Row, low: Row, error: Row, peaks: Row | None) -> list[int]:
        r, m = self.r, self.m
        both, net = outwards(high, low)
        hidden, off = [], []
        for i, (b_plus, b_minus) in enumerate(r.b_in):
            carried = dot(error, r.W_in.size[i])
            plus, minus = r.W_in.parts(i, both, net)
            plus, minus = plus + carried + b_plus, minus + carried + b_minus
            n = r.W_in.terms(i, r.used)
            added = carried + r.arithmetic.off(plus, minus, n, max(n - (b_plus == b_minus), 0))
            top = (plus if peaks is None else peaks[i]) + added
            hidden.append(max(top, 0))
            off.append(added if top > 0 else 0)  # else zero in either arithmetic
        live = sum(map(bool, hidden))
        own = []
        for c, (b_plus, b_minus) in enumerate(r.b_out):
            plus, minus = r.W_out.parts(c, hidden, hidden)
            own.append(r.arithmetic.off(plus + b_plus, minus + b_minus, live, live))
        needed = []
        for count in counts:
            right = count - m.first_count
            worst = 0
            for c, gaps in enumerate(r.gaps[right]):
                if c != right:
                    worst = max(worst, dot(off, gaps) + own[c])
            needed.append(worst + own[right])
        return needed

    # --- the mixed token ---------------------------------------------------------------------------------------

    def _mixed(self, count: int) -> tuple[Row, Row, Row]:
        """Upper and lower bounds on x + sum_m a_m x_m over the sequences of a cell, and how far it is off."""
        if self.m.mixing == "lin":
            summed = self._constant
        else:
            summed = self._weighted(count) if self.m.softmax else self._sums(count)
        return self._with_residual(*summed)

    def _any_mixed(self) -> tuple[Row, Row, Row]:
        if self.m.mixing == "lin":
            return self._with_residual(*self._constant)
        if self.m.softmax:
            high, low, error = (list(map(max, *rows)) for rows in self._softmax_rows)
            return self._with_residual(*self._lowered(high, low), self._below(error))
        first, last = (self._sums(count) for count in (1, self.m.L))  # linear between them
        return self._with_residual(
            list(map(max, first[0], last[0])), list(map(min, first[1], last[1])), list(map(max, first[2], last[2]))
        )

    def _lowered(self, high: Row, low: Row) -> tuple[Row, Row]:
        """Bounds on embeddings from bounds on them and on their negatives that were raised by the largest."""
        c = self.r.largest
        return [v - top for v, top in zip(high, c, strict=True)], [top - v for v, top in zip(low, c, strict=True)]

    def _with_residual(self, high: Row, low: Row, error: Row) -> tuple[Row, Row, Row]:
        r = self.r
        high, low = list(map(add, high, r.high[self.t])), list(map(add, low, r.low[self.t]))
        error = [
            e + r.arithmetic.unit(max(abs(a), abs(b)) + e) if used else 0
            for a, b, e, used in zip(high, low, error, r.largest, strict=True)
        ]
        return high, low, error

    def _below(self, error: Row) -> Row:
        """The error, with what each weight and each operation may lose below 2^-120."""
        n = self.r.n_positions
        lost = 4 * n if self.m.softmax else 0
        return [
            e + (2 * n * e >> self.r.arithmetic.bits) + 2 * n + 1 + (-(-lost * c >> Q)) if c else 0
            for e, c in zip(error, self.r.largest, strict=True)
        ]

    @cached_property
    def _constant(self) -> tuple[Row, Row, Row]:
        """Of a constant mixer: each other position holds what is worst."""
        r, m = self.r, self.m
        at = self.view.position or 0  # any position, where all are equal
        row = r.A[at]
        if m.softmax:
            scores, bits = m.weights["A"]
            gap = ceil(max(scores[at]) - min(scores[at]), bits)
            (deviation,) = r.deviations([r.arithmetic.unit(gap)])
        else:
            deviation = 0
        sizes = [ceil(abs(mid) + rad, r.A_bits) for mid, rad in row]
        top = [max(column) for column in zip(*r.high[: m.T], strict=True)]
        bottom = [min(column) for column in zip(*r.low[: m.T], strict=True)]
        others = [sizes[i] if mid > 0 else -sizes[i] for i, (mid, _) in enumerate(row) if i != at]
        plus, minus = sum(a for a in others if a > 0), -sum(a for a in others if a < 0)
        sign = 1 if row[at][0] > 0 else -1
        own_high, own_low = (r.high, r.low) if sign > 0 else (r.low, r.high)
        wide = 2 * sum(ceil(2 * rad, r.A_bits) + 1 for _, rad in row)  # a weight may be smaller than its bound
        size = sum(sizes)
        if -(-size * max(r.largest) >> Q) >= LIMIT:
            raise TooLarge
        high, low, error = [], [], []
        for j, c in enumerate(r.largest):
            room = (wide * c >> Q) + 2
            a, b = sign * own_high[self.t][j] * sizes[at], sign * own_low[self.t][j] * sizes[at]
            high.append(-(-(a + plus * top[j] - minus * bottom[j]) >> Q) + room)
            low.append(((b + plus * bottom[j] - minus * top[j]) >> Q) - room)
            total = -(-(sizes[at] * r.size[self.t][j] + (plus + minus) * c) >> Q)
            error.append(-(-r.losing(deviation) * total >> Q))
        return high, low, self._below(error)

    @cached_property
    def _softmax_rows(self) -> tuple[list[Row], list[Row], list[Row]]:
        """For each token, what a position that holds it adds to three means: the embedding, its negative, the error.

        The first two are raised by the largest embedding, so that they are positive.
        """
        r, m, t = self.r, self.m, self.t
        top, worst = max(mid + rad for mid, rad in m.S[t]), max(r.score_error[t])
        gaps = [ceil(top - mid + rad, m.bits) + 2 * worst for mid, rad in m.S[t]]
        exponents = [e + r.arithmetic.unit(gap) for e, gap in zip(r.score_error[t], gaps, strict=True)]
        losses = [r.losing(deviation) for deviation in r.deviations(exponents)]
        return (
            [list(map(add, row, r.largest)) for row in r.high],
            [[c - v for c, v in zip(r.largest, row, strict=True)] for row in r.low],
            [[-(-loss * v >> Q) for v in row] for loss, row in zip(losses, r.size, strict=True)],
        )

    @cached_property
    def _weighted_rows(self) -> tuple[list[Row], Row]:
        """The three rows of each token, end to end, times its weight; and lower bounds on the weights."""
        shift = self.m.bits - WEIGHT_BITS
        weight = self.m.attention(self.t)
        high = [(mid + rad >> shift) + 1 for mid, rad in weight]
        rows = [[*a, *b, *c] for a, b, c in zip(*self._softmax_rows, strict=True)]
        return (
            [[w * v for v in row] for w, row in zip(high, rows, strict=True)],
            [max(0, mid - rad >> shift) for mid, rad in weight],
        )

    def _weighted(self, count: int) -> tuple[Row, Row, Row]:
        """Weighted means over the positions; they are largest where the other positions all hold one token."""
        m, t = self.m, self.t
        rows, least = self._weighted_rows
        fixed, below = [count * v for v in rows[t]], count * least[t]
        if m.mixing == "bos":
            fixed, below = list(map(add, fixed, rows[m.T])), below + least[m.T]
        rest = m.L - count
        means = []
        for s in (s for s in range(m.T) if s != t) if rest else (t,):
            under = below + rest * least[s]
            if not under:
                raise TooLarge
            means.append([(a + rest * b) // under for a, b in zip(fixed, rows[s], strict=True)])
        largest = [v + 1 for v in (map(max, *means) if len(means) > 1 else means[0])]
        d = m.d
        return *self._lowered(largest[:d], largest[d : 2 * d]), self._below(largest[2 * d :])

    @cached_property
    def _sum_rows(self) -> tuple[list[Row], list[Row], list[Row]]:
        """For each token, what a position that holds it adds to the mixed token, at most and at least, and its
        error."""
        r, m, t = self.r, self.m, self.t
        E, e = m.weights["W_E"]
        high, low, error = [], [], []
        for row, size, (mid, rad), score, off in zip(E, r.size, m.S[t], r.score[t], r.score_error[t], strict=True):
            room = [(rad * v >> m.bits) + 2 for v in size]
            high.append([ceil(mid * n, m.bits + e) + w for n, w in zip(row, room, strict=True)])
            low.append([-ceil(-mid * n, m.bits + e) - w for n, w in zip(row, room, strict=True)])
            total = off + r.n_positions * r.arithmetic.unit(score + off)
            if self.r.n_positions * -(-(score + off) * max(size) >> Q) >= LIMIT:
                raise TooLarge
            error.append([-(-total * v >> Q) for v in size])
        return high, low, error

    def _sums(self, count: int) -> tuple[Row, Row, Row]:
        high, low, error = self._sum_rows
        top, bottom = self._added(high, count, max), self._added(low, count, min)
        return top, bottom, self._below(self._added(error, count, max))

    def _added(self, rows: list[Row], count: int, pick: Callable[..., int]) -> Row:
        m, t = self.m, self.t
        others = [row for s, row in enumerate(rows[: m.T]) if s != t]
        far = list(map(pick, *others)) if len(others) > 1 else others[0]
        total = [count * own + (m.L - count) * v for own, v in zip(rows[t], far, strict=True)]
        return list(map(add, total, rows[m.T])) if m.mixing == "bos" else total

    # --- pre-activations ---------------------------------------------------------------------------------------

    def _peaks(self, count: int) -> Row:
        """Upper bounds, with their sign, on each pre-activation over all sequences with this count."""
        view, m = self.view, self.m
        if view.weights is not None:
            return self._constant_peaks[count - 1]
        rest, error = m.L - count, view.error
        rows = []
        for s, other in enumerate(view.table):
            if s != view.token:
                z = [b + rest * v + error for b, v in zip(view.base[count - 1], other, strict=True)]
                D = z.pop() - error
                rows.append([-((-v << Q) // (D - error if v > 0 else D + error)) for v in z])
        return self._in_true_units(list(map(max, *rows)) if len(rows) > 1 else rows[0])

    def _in_true_units(self, row: Row) -> Row:
        return [v << scale if scale >= 0 else -(-v >> -scale) for v, scale in zip(row, self.m.scales, strict=True)]

    @cached_property
    def _constant_peaks(self) -> list[Row]:
        view, m = self.view, self.m
        assert view.weights is not None
        others = [row for s, row in enumerate(view.table) if s != view.token]
        units = []
        for i in range(m.p):
            values = [row[i] for row in others]
            best = [max(a * max(values), a * min(values)) for a in view.weights]  # each position chooses for itself,
            own = [a * view.table[view.token][i] for a in view.weights]  # t takes k - 1 where that costs least
            gains = sorted(map(int.__sub__, own, best), reverse=True)
            start = view.base[0][i] + sum(best) + (view.error << view.weight_bits)
            units.append([-((-(start + sum(gains[:k])) << Q) >> (view.bits + view.weight_bits)) for k in range(m.L)])
        return [self._in_true_units(list(column)) for column in zip(*units, strict=True)]
