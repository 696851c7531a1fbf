"""One tree of a certificate: does it prove that one class beats another wherever a token occurs k times?

For a rational model z = base + sum_m a_m V[x_m], the tree must show that

    g = z_D bias + sum_i w_i ReLU(z_i) > slack      for all x_m, q of them t and the others not.

A node says what some positions hold; n_s of the free ones (the pool) hold s, wherever; the rest hold allowed tokens. It
is a leaf, or split on a token s (no position of the rest holds s; one does and joins the pool), or on what one position
holds. The children make up the node, so if all leaves hold, g > slack everywhere.

A leaf. Let the free positions have weights of one sign and sum A. The part of A that falls to a pool token j lies
between the sums of its n_j smallest and largest weights, mid_j +- half_j. So z is a convex combination, over allowed s,
of

    z_s + sum_j delta_j (V[j] - V[s]),  z_s = held + sum_j mid_j V[j] + (A - sum_j mid_j) V[s],  |delta_j| <= half_j.

With weights of both signs, the mean stands for each. What is left is sum_m (a_m - mean) V[x_m]. For a linear h it is at
most (1/2) sum_m |a_m - mean| (max_x h(V[x]) - min_x h(V[x])).

At each z_s a linear function is put below g. For w_i > 0 it is w_i alpha_i z_i, with alpha_i in [0, 1] from the
certificate, the same for all s. For w_i < 0, with y the displacement and any sigma_i in [0, 1], it is
w_i (sigma_i y + max over the ends of (ReLU(z_i + y) - sigma_i y)). g is above a convex combination of their values.
Each is lowest where the displacement costs h most. If nothing lies between the z_s (at
most one position in the rest, or one allowed token) each has its own alpha: 1 where z_i > 0, else 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from counting_interp.interp.proof.checker.model import View
from counting_interp.interp.proof.checker.weights import Refused

ALPHA_UNITS = 128  # in a certificate
UNITS = 2**60  # of alpha and sigma here


@dataclass(frozen=True)
class Node:
    """held: a token or None for each position; pool: n_s for each token; allowed: the tokens of the rest, ascending."""

    held: tuple[int | None, ...]
    pool: tuple[int, ...]
    allowed: tuple[int, ...]

    @property
    def rest(self) -> int:
        return self.held.count(None) - sum(self.pool)

    def children(self, split: int) -> list[Node]:
        """What the node is split into, in the order in which a certificate has them, last one first."""
        if split >= 0:
            if split not in self.allowed or self.rest < 1:
                raise Refused("a tree splits on a token that is not there")
            without = tuple(s for s in self.allowed if s != split)
            joined = Node(self.held, _changed(self.pool, split, 1), self.allowed)
            return [Node(self.held, self.pool, without), joined] if without else [joined]
        position = -1 - split
        if position >= len(self.held) or self.held[position] is not None:
            raise Refused("a tree splits on a position that is not free")
        nodes = []
        for s, owed in enumerate(self.pool):
            if owed or (self.rest > 0 and s in self.allowed):
                held = (*self.held[:position], s, *self.held[position + 1 :])
                nodes.append(Node(held, _changed(self.pool, s, -1) if owed else self.pool, self.allowed))
        return nodes


def _changed(pool: tuple[int, ...], s: int, by: int) -> tuple[int, ...]:
    return (*pool[:s], pool[s] + by, *pool[s + 1 :])


@dataclass(frozen=True)
class Corner:
    """z_s in the node's units; upper and sigma: UNITS times the bound on ReLU(z_i + y) - sigma_i y, and the slope."""

    token: int
    z: list[int]
    D: int
    active: list[int]
    upper: list[int]
    sigma: list[int]


class Corners:
    """All corners of a node, in units of 2^-(bits + weight_bits) / factor."""

    def __init__(self, view: View, weights: Sequence[int], base: list[int], node: Node) -> None:
        table = view.table
        free = sorted(a for a, token in zip(weights, node.held, strict=True) if token is None)
        n, total, rest = len(free), sum(free), node.rest
        mixed = n > 0 and free[0] < 0 < free[-1]
        self.factor = 2 * n if mixed else 2
        pool = {s: count for s, count in enumerate(node.pool) if count}
        tokens: Sequence[int] = node.allowed
        if rest == 0:  # the largest of the pool takes what the others leave
            tokens = [max(pool, key=lambda s: pool[s])] if pool else [0]
        z = list(base)
        for a, token in zip(weights, node.held, strict=True):
            if token is not None:
                z = [value + a * v for value, v in zip(z, table[token], strict=True)]
        z = [self.factor * value for value in z]
        self.halves: dict[int, int] = {}
        left = 2 * total
        for s, count in pool.items():
            if mixed:
                share = 2 * total * count
            elif rest == 0 and s == tokens[0]:
                continue
            else:
                low, high = sum(free[:count]), sum(free[n - count :])
                share, self.halves[s] = low + high, high - low
            left -= share
            z = [value + share * v for value, v in zip(z, table[s], strict=True)]
        if mixed:
            left = 2 * total * rest
        self.halves = {s: half for s, half in self.halves.items() if half}
        self.deviation = sum(abs(n * a - total) for a in free) if mixed else 0
        self.possible = sorted({*pool, *(node.allowed if rest else ())})
        self.moves = bool(self.halves) or self.deviation > 0
        self.separate = rest <= 1 or len(tokens) == 1
        self.corners = [
            self._corner(s, [value + left * v for value, v in zip(z, table[s], strict=True)], table) for s in tokens
        ]

    def _corner(self, s: int, z: list[int], table: list[list[int]]) -> Corner:
        D = z.pop()
        active = [UNITS * value if value > 0 else 0 for value in z]
        if not self.moves:
            return Corner(s, z, D, active, active, [])
        box = [0] * len(z)
        for j, half in self.halves.items():
            box = [b + half * abs(v - own) for b, v, own in zip(box, table[j], table[s], strict=False)]
        if self.deviation:
            rows = [table[x] for x in self.possible]
            box = [
                b + self.deviation * (max(column) - min(column))
                for b, column in zip(box, zip(*rows, strict=True), strict=False)
            ]
        upper, sigma = [], []
        for value, b in zip(z, box, strict=True):
            top, bottom = value + b, value - b
            slope = UNITS if bottom >= 0 else 0 if top <= 0 else UNITS * top // (top - bottom)
            upper.append(max(UNITS * max(top, 0) - slope * b, UNITS * max(bottom, 0) + slope * b))
            sigma.append(slope)
        return Corner(s, z, D, active, upper, sigma)


class CellCheck:
    """All trees of one cell. They share its corners."""

    def __init__(self, view: View, count: int, L: int) -> None:
        T = len(view.table)
        self.view, self.base = view, view.base[count - 1]
        self.weights = [1] * (L - count) if view.weights is None else view.weights
        equal = 0 if view.weights is None else count - 1
        others = tuple(s for s in range(T) if s != view.token)
        self.root = Node((None,) * len(self.weights), _changed((0,) * T, view.token, equal), others)
        self.known: dict[Node, Corners] = {}

    def check(self, tree: Sequence[int | str], w: list[int], bias: int) -> int:
        """Raises Refused unless `tree` proves g > 0 in real arithmetic. Returns the number of its nodes.

        w, bias: in any common unit; tree: splits (a token, or -1 - position) and leaves (alpha in hexadecimal, two
        digits for each w_i > 0), depth first.
        """
        slack = self.view.error * (sum(map(abs, w)) + abs(bias))
        positive, negative = [max(value, 0) for value in w], [min(value, 0) for value in w]
        stack, visited = [self.root], 0
        while stack:
            if visited >= len(tree):
                raise Refused("a tree ends before its last leaf")
            node, entry = stack.pop(), tree[visited]
            visited += 1
            if isinstance(entry, int):
                stack += node.children(entry)
            else:
                self._leaf(node, entry, positive, negative, bias, slack)
        if visited != len(tree):
            raise Refused("a tree continues after its last leaf")
        return visited

    def _leaf(self, node: Node, leaf: str, positive: list[int], negative: list[int], bias: int, slack: int) -> None:
        if node not in self.known:
            if len(self.known) > 256:
                self.known.clear()
            self.known[node] = Corners(self.view, self.weights, self.base, node)
        corners = self.known[node]
        table = self.view.table
        tilted = [] if corners.separate else list(map(mul, positive, self._alpha(leaf, positive)))
        if corners.separate and leaf:
            raise Refused("a leaf has multipliers where none are used")
        for corner in corners.corners:
            value = UNITS * corner.D * bias + sum(map(mul, negative, corner.upper))
            value += sum(map(mul, positive, corner.active)) if corners.separate else sum(map(mul, tilted, corner.z))
            if corners.moves:
                slope = [n * sigma for n, sigma in zip(negative, corner.sigma, strict=True)]
                if corners.separate:
                    slope = [a + UNITS * b * (z > 0) for a, b, z in zip(slope, positive, corner.z, strict=True)]
                else:
                    slope = list(map(int.__add__, slope, tilted))
                own = sum(map(mul, slope, table[corner.token]))
                for j, half in corners.halves.items():
                    value -= half * abs(sum(map(mul, slope, table[j])) - own)
                if corners.deviation:
                    h = [sum(map(mul, slope, table[x])) for x in corners.possible]
                    value -= corners.deviation * (max(h) - min(h))
            if value <= (UNITS * corners.factor * slack) << self.view.weight_bits:
                raise Refused("a leaf does not hold")

    @staticmethod
    def _alpha(leaf: str, positive: list[int]) -> list[int]:
        try:
            values = iter(bytes.fromhex(leaf))
        except ValueError:
            raise Refused("a leaf is not hexadecimal") from None
        alpha = [next(values, ALPHA_UNITS + 1) if value else 0 for value in positive]
        if max(alpha, default=0) > ALPHA_UNITS or next(values, None) is not None:
            raise Refused("a leaf has multipliers outside [0, 1], or too few or too many")
        return [UNITS // ALPHA_UNITS * value for value in alpha]
