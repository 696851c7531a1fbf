"""A one-layer model as integers: pre-activations are sums over the other positions.

At a position that holds t, k times in the sequence, with x_1 .. x_r at the other positions,

    z = base(k) + sum_m a_m V[x_m],    logits = (ReLU(z_1 .. z_p) W_out + z_D b_out) / z_D,    z_D > 0:

    `dot`, `bos`     V[s] = S_ts F_s, z_D = 1, a_m = 1;  F = E W_in, S = E W_Q W_K^T E^T / sqrt(d)
    with softmax     V[s] = e_ts (F_s + F_t + b_in), z_D = sum of e_ts = exp(S_ts - c), a_m = 1; everything was
                     multiplied by the denominator, any c cancels
    `lin`            V[s] = F_s, z_D = 1, a_m = A_lm; k - 1 of the x_m are t, which `base` leaves out. Where A has one
                     value on its diagonal and one, a, beside it, all positions are equal: V[s] = a F_s, a_m = 1

and `$` is a position that always holds `$`. Square roots and exponentials are enclosed, so V, a and base are balls. A
`View` holds their centres, which make an exact rational model of the same form. Its `error` bounds |z_i - centre of
z_i| over all sequences. What is proved of the rational model by more than that is true of the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any

from counting_interp.interp.proof.checker.weights import Tensor, Unreadable

Ball = tuple[int, int]
GUARD = 64  # bits beyond, in an exponential
BITS = 96

Matrix = list[list[int]]


@dataclass(frozen=True)
class View:
    """What a position that holds t sees (at each index, where these differ). V and base are in units of 2^-bits and
    2^-(bits + weight_bits), the weights in units of 2^-weight_bits; the last entry of each row is z_D.

    Attributes:
        base: one row for each count 1 .. L.
        table: V, one row for each token; weights: a_m of the other positions, or None where all are one.
        error: in units of 2^-bits.
    """

    token: int
    position: int | None
    bits: int
    weight_bits: int
    base: Matrix
    table: Matrix
    weights: list[int] | None
    error: int


class Model:
    """The weights as integers, and what follows from them for every position."""

    def __init__(self, tensors: dict[str, Tensor], config: dict[str, Any]) -> None:
        self.mixing, self.softmax = config["mixing"], config["softmax"]
        self.T, self.L, self.d, self.p = (config[name] for name in ("T", "L", "d", "p"))
        self.classes = config["n_classes"]
        self.first_count = 1 if self.classes == self.L else 0
        self.vocab = self.T + (self.mixing == "bos")
        d, p = self.d, self.p
        shapes = {
            "embed.W_E": (self.vocab, d),
            "blocks.0.mlp.W_in": (d, p),
            "blocks.0.mlp.b_in": (p,),
            "blocks.0.mlp.W_out": (p, self.classes),
            "blocks.0.mlp.b_out": (self.classes,),
        }
        own = {"A": (self.L, self.L)} if self.mixing == "lin" else {"W_Q": (d, d), "W_K": (d, d)}
        shapes |= {f"blocks.0.attn.{name}": shape for name, shape in own.items()}
        if {name: tensor.shape for name, tensor in tensors.items()} != shapes:
            raise Unreadable("has other weights than its configuration asks for")
        self.kind = tensors["embed.W_E"].kind
        self.weights = {name.rsplit(".")[-1]: _rows(tensor) for name, tensor in tensors.items()}
        E, e = self.weights["W_E"]
        W_in, i = self.weights["W_in"]
        (b_in,), b_bits = self.weights["b_in"]
        self._set_units(_product(E, _turned(W_in)), e + i, b_in, b_bits)  # exact
        self.bits = BITS
        if self.mixing != "lin":
            Q, q_bits = self.weights["W_Q"]
            K, k_bits = self.weights["W_K"]
            self.queries, self.keys = (_product(E, _turned(Q)), e + q_bits), (_product(E, _turned(K)), e + k_bits)
            raw, raw_bits = _product(self.queries[0], self.keys[0]), 2 * e + q_bits + k_bits
            self.S = self._scores(raw, raw_bits)  # balls in units of 2^-self.bits
            if self.softmax:  # keep digits where a weight is large beside the weights that are always there
                self.bits += 2 * max(
                    0, max(row[0] - self._present(t) for t in range(self.T) for row in self.S[t]) >> BITS
                )
                self.S = self._scores(raw, raw_bits)

    def _set_units(self, F: Matrix, bits: int, b_in: list[int], b_bits: int) -> None:
        """Hidden units in units of their own, 2^scales[i], in which they are near one; the read-out by as much larger.
        The logits stay exactly what they are, and errors of fixed size mean the same for every unit."""
        both = max(bits, b_bits)
        rows = [[n << (both - bits) for n in row] for row in F] + [[n << (both - b_bits) for n in b_in]]
        sizes = [max(map(abs, column)) for column in zip(*rows, strict=True)]
        self.scales = [size.bit_length() - both if size else 0 for size in sizes]
        most = max(0, *self.scales)
        rows = [[n << (most - scale) for n, scale in zip(row, self.scales, strict=True)] for row in rows]
        *self.F, self.b_in = rows
        self.F_bits = self.b_in_bits = both + most
        W_out, out_bits = self.weights["W_out"]
        least = min(0, *self.scales)
        self.read_out = (
            [[n << (scale - least) for n in row] for row, scale in zip(W_out, self.scales, strict=True)],
            out_bits - least,
        )

    def _scores(self, raw: Matrix, raw_bits: int) -> list[list[Ball]]:
        root = square_root(self.d, self.bits)
        return [[over(rescaled((n, 0), raw_bits, self.bits), root, self.bits) for n in row] for row in raw]

    def _present(self, t: int) -> int:
        """The highest score, seen from t, of what every sequence with t holds: t itself and `$`."""
        return max(self.S[t][t][0], self.S[t][self.vocab - 1][0] if self.mixing == "bos" else self.S[t][t][0])

    def balls(self, row: list[int], have: int) -> list[Ball]:
        return [rescaled((n, 0), have, self.bits) for n in row]

    def attention(self, t: int) -> list[Ball]:
        """exp(S_ts - c) for all s; c makes the largest one that is always there equal to one."""
        c = self._present(t)
        return [exponential((mid - c, rad), self.bits) for mid, rad in self.S[t]]

    def mixing_matrix(self) -> tuple[list[list[Ball]], int]:
        """A of `lin` and the bits of its unit: exact without softmax."""
        A, bits = self.weights["A"]
        if not self.softmax:
            return [[(n, 0) for n in row] for row in A], bits
        rows = []
        for row in A:
            weight = [exponential(rescaled((n - max(row), 0), bits, BITS), BITS) for n in row]
            total = (sum(mid for mid, _ in weight), sum(rad for _, rad in weight))
            rows.append([over(ball, total, BITS) for ball in weight])
        return rows, BITS

    def views(self) -> Iterator[View]:
        """In the order of a certificate: position by position where these differ, then token by token."""
        if self.uniform:
            for t in range(self.T):
                yield self._equal_view(t)
        elif self.mixing == "lin":
            A, bits = self.mixing_matrix()
            for position, row in enumerate(A):
                for t in range(self.T):
                    yield self._constant_view(t, position, row, bits)
        else:
            for t in range(self.T):
                yield self._attention_view(t)

    def _constant_view(self, t: int, position: int, row: list[Ball], a_bits: int) -> View:
        table = [[*self.balls(f, self.F_bits), (0, 0)] for f in self.F]
        b_in = self.balls(self.b_in, self.b_in_bits)
        one = plus((1 << a_bits, 0), row[position])
        bits = BITS + a_bits
        base = [plus((one[0] * f[0], abs(one[0]) * f[1] + one[1] * (abs(f[0]) + f[1])), rescaled(b, BITS, bits))
                for f, b in zip(table[t], b_in, strict=False)]  # fmt: skip
        others = [ball for m, ball in enumerate(row) if m != position]
        largest = max(abs(v) + rad for entry in table for v, rad in entry)
        moved = sum((abs(a) + rad) * 2 + rad * largest for a, rad in others)  # radii of F are at most 2
        error = (max((rad for _, rad in base), default=0) + moved >> a_bits) + 2
        centres = [[v for v, _ in entry] for entry in table]
        start = [mid for mid, _ in base] + [1 << bits]
        return View(t, position, BITS, a_bits, [start] * self.L, centres, [a for a, _ in others], error)

    @property
    def uniform(self) -> bool:
        """Whether a constant mixer has one value on its diagonal and one beside it, exactly."""
        if self.mixing != "lin" or self.L < 2:
            return False
        A, _ = self.weights["A"]
        others = {n for i, row in enumerate(A) for m, n in enumerate(row) if m != i}
        return len({row[i] for i, row in enumerate(A)}) == 1 and len(others) == 1

    @property
    def n_views(self) -> int:
        return self.T * (self.L if self.mixing == "lin" and not self.uniform else 1)

    def _equal_view(self, t: int) -> View:
        A, a_bits = self.mixing_matrix()
        own, other = (rescaled(ball, a_bits, BITS) for ball in A[0][:2])
        more = (own[0] - other[0], own[1] + other[1])  # what t weighs at the position itself beyond any other position
        F = [self.balls(f, self.F_bits) for f in self.F]
        rows = [[*(times(other, v, BITS) for v in f), (0, 0)] for f in F]
        start = [plus(plus(f, b), times(more, f, BITS))
                 for f, b in zip(F[t], self.balls(self.b_in, self.b_in_bits), strict=True)]  # fmt: skip
        return self._summed(t, [*start, (1 << BITS, 0)], rows)

    def _attention_view(self, t: int) -> View:
        bits = self.bits
        weight = self.attention(t) if self.softmax else self.S[t]
        F = [self.balls(f, self.F_bits) for f in self.F]
        b_in = self.balls(self.b_in, self.b_in_bits)
        if self.softmax:
            rows = [
                [*(times(e, plus(plus(v, own), b), bits) for v, own, b in zip(f, F[t], b_in, strict=True)), e]
                for e, f in zip(weight, F, strict=True)
            ]
            start = [(0, 0)] * (self.p + 1)
        else:
            rows = [[*(times(s, v, bits) for v in f), (0, 0)] for s, f in zip(weight, F, strict=True)]
            start = [*(plus(own, b) for own, b in zip(F[t], b_in, strict=True)), (1 << bits, 0)]
        if self.mixing == "bos":
            start = [plus(a, b) for a, b in zip(start, rows[self.T], strict=True)]
        return self._summed(t, start, rows)

    def _summed(self, t: int, start: list[Ball], rows: list[list[Ball]]) -> View:
        """z = start + the rows of what all L positions hold, t itself among them."""
        base = [[a + k * b for (a, _), (b, _) in zip(start, rows[t], strict=True)] for k in range(1, self.L + 1)]
        error = max(rad for _, rad in start) + self.L * max(rad for row in rows for _, rad in row)
        return View(t, None, self.bits, 0, base, [[v for v, _ in row] for row in rows[: self.T]], None, error)


def _rows(tensor: Tensor) -> tuple[Matrix, int]:
    """The tensor as rows of integers (one row for a vector), and the bits of their unit."""
    values, bits = tensor.integers()
    width = tensor.shape[-1]
    return [values[i : i + width] for i in range(0, len(values), width)], bits


def _turned(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def _product(left: Matrix, right_columns: Matrix) -> Matrix:
    return [[sum(map(int.__mul__, row, column)) for column in right_columns] for row in left]


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
