"""IC in `lin` and `lin+sftm` with d < T (Prop. "Robustness via bounded mutual coherence"), p = T.

As with orthogonal tokens, but the tokens are a frame: unit j reads e_j, and at a position that holds t

    z_t = 1 + (k + sum of <e_s, e_t> over the L - k fillers s) / L + b,

so fillers disturb the count by their overlaps. `framed` says when neighbouring counts stay apart. The other units stay
silent if the overlaps' measure is below 1/L as well: from z_j <= <e_j, e_t> + (L - 1 + <e_j, e_t>)/L + b.
"""

from __future__ import annotations

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.framed import find_frame


def need(L: int) -> float:
    return min(1 / (2 * L - 3), 1 / L)


def coherent(size: Size) -> Circuit:
    return _framed(size, "coherence")


def compact(size: Size) -> Circuit:
    """Ours: the overlaps need not be small, only alike."""
    return _framed(size, "band")


def _framed(size: Size, measure: str) -> Circuit:
    frame = find_frame(size.T, min(size.d, size.T), measure, need(size.L), size.seed)
    return Circuit(frame.vectors, W_in=frame.vectors.T, facts={measure: frame.value})
