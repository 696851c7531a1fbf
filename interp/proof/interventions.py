"""What the two interventions of the verdict do on *every* sequence, by proof.

Both leave a one-layer model linear in the other positions (`reduction`), so the same cells and the same branch and
bound decide. With D = F_s - F_t and o the weight of the position on itself:

- **Swapped** (`probes.interventions.swap_self_path`): z + (z_D + o) D. Every row of the table and the base change by
  their own z_D times D, the base also by o D. "Says the count of t" is a claim on the cells of t; "says one more than
  the count of s" is a claim on cells in which s is the token that is counted, and t one of the others.
- **Flattened** (`flatten_comparison`): the row of an absent token u in place of t's, the position's own weight o as it
  was. "Says k" and "says the same whatever k" are claims on its cells. u does not occur, so it is not among the others.
  With softmax, o is measured against the positions that hold other tokens; where t and u weigh these equally up to a
  common factor (constructions do), that is one number. Elsewhere it depends on the sequence, and nothing is claimed.

A claim is proved if the right class leads every other one by more than MARGIN on every sequence, in float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from counting_interp.interp.proof.branch import PROVED
from counting_interp.interp.proof.cells import CountCell, compile_kernels
from counting_interp.interp.proof.reduction import Reduction, View
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.applicability import needs_conflict, needs_one_layer, needs_paper_block, refuse

MARGIN = 1e-6
NODES = 300  # of branch and bound, for each cell and challenger
EQUAL = 1e-6  # relative; up to this two rows of weights count as equal


@dataclass(frozen=True)
class ProvedInterventions:
    """Shares of the pairs of tokens (t, s), or (t, u), for which a claim was proved on every sequence.

    Attributes:
        pairs: how many were looked at.
        says_t: swapped, the position says the count of t. says_s: it says one more than the count of s.
        says_count: flattened, the position says its count. says_nothing: it says the same whatever its count.
    """

    pairs: int
    says_t: float
    says_s: float
    says_count: float
    says_nothing: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"on every sequence, of {self.pairs} pairs of tokens: with s patched in, {self.says_t:.0%} say the count "
            f"of t and {self.says_s:.0%} that of s and one; without attention's comparison, {self.says_count:.0%} say "
            f"their count and {self.says_nothing:.0%} the same whatever it is"
        )


def prove_interventions(
    model: CountingTransformer, *, n_pairs: int = 32, seconds: float = 10.0, seed: int = 0
) -> ProvedInterventions:
    """Try to prove all four claims for up to `n_pairs` random pairs, or as many as there is time for."""
    refuse(needs_paper_block(model.config) or needs_one_layer(model.config) or needs_conflict(model.config))
    compile_kernels()
    reduction = Reduction(model)
    deadline = time.perf_counter() + seconds
    claims: tuple[Callable[[Reduction, int, int], bool], ...] = (_says_t, _says_s, _says_count, _says_nothing)
    found = []
    with np.errstate(all="ignore"):  # what overflows is not proved
        for t, s in _pairs(model.config.T, n_pairs, seed):
            if reduction.outside is None and reduction.provable(t) and reduction.provable(s):
                found.append([claim(reduction, t, s) for claim in claims])
            else:
                found.append([False] * len(claims))
            if time.perf_counter() > deadline:
                break
    shares = np.mean(found, axis=0)
    return ProvedInterventions(len(found), *(float(share) for share in shares))


def swapped_view(reduction: Reduction, t: int, s: int, position: int | None) -> View:
    """The view of a position that holds t and has s patched in."""
    view = reduction.view(t, position)
    change = np.append(reduction.F[s] - reduction.F[t], 0.0)
    if position is not None:
        own = reduction.A[position, position]
    else:
        own = view.table[t, -1] if reduction.config.softmax else reduction.S[t, t]
    base = view.base + (view.base[:, -1:] + own) * change
    return View(t, position, base, view.table + view.table[:, -1:] * change, view.weights)


def flattened_view(reduction: Reduction, t: int, u: int) -> View | None:
    """The view of a position that holds t and asks as u; None where its own weight depends on the sequence."""
    config = reduction.config
    T, F = config.T, reduction.F
    counts = np.arange(config.L)[:, None]
    if config.softmax:
        own, asked = (np.exp(reduction.S[token] - reduction.S[token].max()) for token in (t, u))
        others = [v for v in range(len(F)) if v not in (t, u)]
        ratios = asked[others] / own[others]
        if not np.ptp(ratios) <= EQUAL * ratios.max():
            return None
        values = np.column_stack([F + F[t] + reduction.b_in, np.ones(len(F))])
        rows, start = asked[:, None] * values, own[t] * ratios.mean() * values[t]
    else:
        rows = reduction.S[u][:, None] * np.column_stack([F, np.zeros(len(F))])
        start = np.append((1 + reduction.S[t, t]) * F[t] + reduction.b_in, 1.0)
    if config.has_bos:
        start = start + rows[T]
    return View(t, None, start + counts * rows[t], rows[:T], None)


def _says_t(reduction: Reduction, t: int, s: int) -> bool:
    """At every position of t with s patched in, for every count that leaves room for s."""
    views = [swapped_view(reduction, t, s, position) for position in _positions(reduction)]
    return all(_proved(CountCell(reduction, view, k)) for view in views for k in range(1, reduction.config.L))


def _says_s(reduction: Reduction, t: int, s: int) -> bool:
    """At every position of t with s patched in: the cell of s in which this position is one of its copies."""
    for position in _positions(reduction):
        view = swapped_view(reduction, t, s, position)
        copies = np.arange(reduction.config.L)[:, None]
        base = view.base if position is not None else view.base[0] + copies * view.table[s]
        counted = View(s, position, base, view.table, view.weights)
        if not all(_proved(CountCell(reduction, counted, j + 1)) for j in range(1, reduction.config.L)):
            return False
    return True


def _says_count(reduction: Reduction, t: int, u: int) -> bool:
    return all(_proved(cell) for cell in _flattened_cells(reduction, t, u)) and _can_flatten(reduction, t, u)


def _says_nothing(reduction: Reduction, t: int, u: int) -> bool:
    """The class that leads at count 1 leads at every count."""
    cells = list(_flattened_cells(reduction, t, u))
    if not cells:
        return False
    sums = cells[0].sums(cells[0].corners()[:1])
    said = int((np.maximum(sums[:, :-1], 0) @ reduction.W_out + sums[:, -1:] * reduction.b_out).argmax())
    for cell in cells:
        cell.right = said
    return all(_proved(cell) for cell in cells)


def _can_flatten(reduction: Reduction, t: int, u: int) -> bool:
    return reduction.config.mixing == "lin" or flattened_view(reduction, t, u) is not None


def _flattened_cells(reduction: Reduction, t: int, u: int) -> Iterator[CountCell]:
    """Counts 1..L-1; a constant mixer has nothing to flatten, so these are its own cells, at every position."""
    for position in _positions(reduction):
        view = flattened_view(reduction, t, u) if position is None else reduction.view(t, position)
        if view is None:
            return
        for k in range(1, reduction.config.L):
            cell = CountCell(reduction, view, k)
            if position is None:
                cell.allowed = cell.allowed & (np.arange(reduction.config.T) != u)
            yield cell


def _proved(cell: CountCell) -> bool:
    if not (cell.margins(cell.corners()) > MARGIN).all():
        return False
    challengers = [c for c in range(cell.reduction.config.classes) if c != cell.right]
    return all(cell.prove(challenger, MARGIN, NODES)[0] == PROVED for challenger in challengers)


def _positions(reduction: Reduction) -> tuple[int | None, ...]:
    """Of a constant mixer all positions one by one, also where they are equal: None stands for an attention."""
    return tuple(range(reduction.config.L)) if reduction.config.mixing == "lin" else (None,)


def _pairs(T: int, n_pairs: int, seed: int) -> list[tuple[int, int]]:
    every = [(t, s) for t in range(T) for s in range(T) if t != s]
    order = np.random.default_rng(seed).permutation(len(every))
    return [every[i] for i in order[:n_pairs]]
