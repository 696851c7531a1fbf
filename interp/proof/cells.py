"""The cells of a one-layer model: a position's view and its count. Each is searched, bounded and proved by itself.

The search is a coordinate descent to the smallest margin. Where multisets are few, all of them are run through.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from math import comb
from typing import no_type_check

import numpy as np
from jaxtyping import Float, Int

from counting_interp.interp.proof.branch import branch_and_bound
from counting_interp.interp.proof.reduction import Reduction, View
from counting_interp.models.config import CountingConfig
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.compiled import strictly_compiled as compiled

ALPHA_STEPS = 10
NO_RECORD = (np.empty(0, np.int64), np.empty((0, 0), np.int64))
GATHERED = 2**22  # numbers that are looked up at once, 32 MB


class CountCell:
    """All sequences in which a position with this view holds a token that occurs `count` times.

    The other positions are numbered in order of a_m; `free` of them hold tokens other than t.
    """

    def __init__(self, reduction: Reduction, view: View, count: int) -> None:
        L = reduction.config.L
        self.reduction, self.view, self.count = reduction, view, count
        self.right = reduction.class_of(count)
        self.base = view.base[count - 1]
        if view.weights is None:
            self.order, self.weights, self.equal = np.arange(L - count), np.ones(L - count), 0
        else:
            self.order = np.argsort(view.weights, kind="stable")
            self.weights, self.equal = view.weights[self.order], count - 1
        self.free = L - count
        self.allowed = np.arange(reduction.config.T) != view.token

    def challengers(self) -> list[int]:
        """The other classes, nearest first: those fail first."""
        classes = [c for c in range(self.reduction.config.classes) if c != self.right]
        return sorted(classes, key=lambda c: abs(c - self.right))

    def corners(self) -> Int[np.ndarray, "corner others"]:
        """One token in all free positions, t in the first or in the last positions."""
        others = np.flatnonzero(self.allowed)
        repeated = np.tile(others[:, None], len(self.weights))
        if self.equal == 0:
            return repeated if self.free else repeated[:1]
        first, last = repeated.copy(), repeated.copy()
        first[:, : self.equal] = self.view.token
        last[:, len(self.weights) - self.equal :] = self.view.token
        return np.concatenate([first, last])

    def random(self, n: int, rng: np.random.Generator) -> Int[np.ndarray, "n others"]:
        T = self.reduction.config.T
        rows = (self.view.token + rng.integers(1, T, (n, len(self.weights)))) % T
        rows[:, : self.equal] = self.view.token
        return rng.permuted(rows, axis=1)

    def sums(self, others: Int[np.ndarray, "n others"]) -> Float[np.ndarray, "n d_mlp_and_D"]:
        table, some = self.view.table, max(1, GATHERED // max(1, others.shape[1] * self.view.table.shape[1]))
        return self.base + np.concatenate(
            [
                np.einsum("m,nmi->ni", self.weights, table[others[at : at + some]])
                for at in range(0, max(1, len(others)), some)
            ]
        )

    def margins(self, others: Int[np.ndarray, "n others"]) -> Float[np.ndarray, "n"]:
        return margins_of(self.sums(others), self.reduction, self.right)

    def search(self, starts: Int[np.ndarray, "n others"], sweeps: int = 10) -> Int[np.ndarray, "n others"]:
        """Where coordinate descent on the margin comes to from each of the starts."""
        r, view = self.reduction, self.view
        reached = np.array(starts, dtype=np.int64, order="C")
        for others in reached:
            descend(self.base, view.table, self.weights, view.token, others, r.W_out, r.b_out, self.right, sweeps)
        return reached

    def prove(
        self,
        challenger: int,
        threshold: float,
        max_nodes: int,
        record: tuple[Int[np.ndarray, "node"], Int[np.ndarray, "node d_mlp"]] | None = None,
    ) -> tuple[int, int, float, Int[np.ndarray, "others"]]:
        """Branch and bound against one class.

        Args:
            record: filled with the tree, see `branch_and_bound`.

        Returns:
            The verdict, the nodes, the proved margin, and the other tokens where it is violated.
        """
        r = self.reduction
        answer = np.zeros(len(self.weights), dtype=np.int64)
        verdict, nodes, bound = branch_and_bound(
            self.base,
            self.view.columns,
            self.weights,
            self.view.token,
            self.equal,
            self.allowed,
            r.W_out[:, self.right] - r.W_out[:, challenger],
            r.b_out[self.right] - r.b_out[challenger] - threshold,
            max_nodes,
            ALPHA_STEPS,
            answer,
            *(NO_RECORD if record is None else record),
        )
        return verdict, nodes, bound + threshold, answer

    def sequence(self, others: Int[np.ndarray, "others"]) -> tuple[list[int], int]:
        """A whole sequence and the cell's position in it."""
        t = self.view.token
        if self.view.position is None:
            return [t] * self.count + sorted(int(s) for s in others), 0
        by_position = np.empty(len(others), dtype=np.int64)
        by_position[self.order] = others
        tokens = [int(s) for s in by_position]
        return [*tokens[: self.view.position], t, *tokens[self.view.position :]], self.view.position


def margins_of(sums: Float[np.ndarray, "n d_mlp_and_D"], reduction: Reduction, right: int) -> Float[np.ndarray, "n"]:
    """Logit of class `right` minus the highest other one."""
    D = sums[:, -1:]
    logits = np.maximum(sums[:, :-1], 0) @ reduction.W_out + D * reduction.b_out
    gaps = logits[:, [right]] - logits
    gaps[:, right] = np.inf
    return (gaps / D).min(1)


def views(reduction: Reduction) -> Iterator[View]:
    """All views, positions outermost where they differ."""
    for position in reduction.positions:
        for token in range(reduction.config.T):
            yield reduction.view(token, position)


def extremes(view: View, L: int) -> tuple[Float[np.ndarray, "count d_mlp"], Float[np.ndarray, "count d_mlp"]]:
    """Lowest and highest pre-activation of each unit over all sequences, exactly, for counts 1..L."""
    others = np.delete(view.table, view.token, axis=0)
    counts = np.arange(1, L + 1)[:, None]
    if view.weights is None:  # ratios of linear functions have their extremes where one token is repeated
        z = view.base[:, None] + (L - counts)[:, :, None] * others
        values = z[:, :, :-1] / z[:, :, -1:]
        return values.min(1), values.max(1)
    a = view.weights[:, None]
    own = a * view.table[view.token, :-1]
    ends = np.stack([a * others.min(0)[:-1], a * others.max(0)[:-1]])  # each position chooses for itself
    result = []
    for best, sign in ((ends.min(0), 1), (ends.max(0), -1)):
        gains = sign * np.sort(sign * (own - best), axis=0)  # then t takes the k - 1 positions where that costs most
        taken = np.vstack([np.zeros((1, own.shape[1])), np.cumsum(gains, axis=0)])
        result.append(view.base[:, :-1] + best.sum(0) + taken[: len(counts)])
    return result[0], result[1]


@cache
def compile_kernels() -> None:
    """Have numba compile (or fetch from its cache) what the proofs need, so that no time limit pays for it."""
    reduction = Reduction(CountingTransformer(CountingConfig.parse("dot", T=2, L=2, d=1, p=1)))
    cell = CountCell(reduction, reduction.view(0), 1)
    cell.search(cell.corners())
    cell.prove(1, 0.0, 1)


@compiled
@no_type_check
def margin_at(z, W_out, b_out, right, logits):
    """Logit of the right class minus the highest other one, for pre-activations z with z_D last."""
    p, C = W_out.shape
    D = z[p]
    for c in range(C):
        logits[c] = D * b_out[c]
    for i in range(p):
        if z[i] > 0.0:
            for c in range(C):
                logits[c] += z[i] * W_out[i, c]
    best = np.inf
    for c in range(C):
        if c != right:
            best = min(best, logits[right] - logits[c])
    return best / D


@compiled
@no_type_check
def _sum_without(base, table, weights, others, left_out, second, z):
    """base + sum_m a_m V[x_m], without the positions `left_out` and `second`. Nothing is ever subtracted again: with
    softmax the terms differ by many orders of magnitude."""
    z[:] = base
    for m in range(len(others)):
        if m != left_out and m != second:
            for i in range(len(z)):
                z[i] += weights[m] * table[others[m], i]


@compiled
@no_type_check
def descend(base, table, weights, token, others, W_out, b_out, right, sweeps):
    """Coordinate descent on the margin over the tokens of the other positions, in place. Positions that hold `token`
    keep their number: they change positions with others (this matters only where the weights differ)."""
    r, T, width = len(others), table.shape[0], table.shape[1]
    rest, z, logits = np.empty(width), np.empty(width), np.empty(len(b_out))
    _sum_without(base, table, weights, others, -1, -1, z)
    best = margin_at(z, W_out, b_out, right, logits)
    for _ in range(sweeps):
        before = best
        for m in range(r):
            if others[m] == token:
                for other in range(r):
                    if others[other] == token or weights[other] == weights[m]:
                        continue
                    _sum_without(base, table, weights, others, m, other, z)
                    for i in range(width):
                        z[i] += weights[other] * table[token, i] + weights[m] * table[others[other], i]
                    margin = margin_at(z, W_out, b_out, right, logits)
                    if margin < best:
                        best = margin
                        others[m], others[other] = others[other], token
                        break
                continue
            _sum_without(base, table, weights, others, m, -1, rest)
            for s in range(T):
                if s == token:
                    continue
                for i in range(width):
                    z[i] = rest[i] + weights[m] * table[s, i]
                margin = margin_at(z, W_out, b_out, right, logits)
                if margin < best:
                    best = margin
                    others[m] = s
        if not best < before:
            break


MAX_CASES = 300_000  # of a whole model
MAX_ENTRIES = 2_000_000  # of one array of pre-activations


def cases(config: CountingConfig, counts: int) -> int:
    """Number of (token, multiset of the other positions) pairs with counts up to `counts`."""
    return config.T * sum(comb(config.T - 2 + config.L - k, config.L - k) for k in range(1, counts + 1))


def enumerable(config: CountingConfig, counts: int) -> bool:
    return config.mixing != "lin" and cases(config, counts) <= MAX_CASES


@lru_cache(maxsize=32)
def multisets(n: int, r: int) -> Int[np.ndarray, "multiset r"]:
    """All multisets of r elements of 0..n-1, one sorted row each."""
    rows = list(combinations_with_replacement(range(n), r))
    return np.array(rows, dtype=np.int64).reshape(len(rows), r)


def enumerate_cell(cell: CountCell) -> tuple[float, Int[np.ndarray, "others"]]:
    """The smallest margin of a `dot` or `bos` cell over all sequences, and the other tokens that give it."""
    rows = multisets(cell.reduction.config.T - 1, cell.free)
    rows = rows + (rows >= cell.view.token)  # skip the token itself
    size = max(1, MAX_ENTRIES // (cell.base.size * max(1, cell.free)))
    margins = np.concatenate([cell.margins(rows[i : i + size]) for i in range(0, len(rows), size)])
    lowest = int(margins.argmin())
    return float(margins[lowest]), rows[lowest]
