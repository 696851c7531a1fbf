"""A gated inventory in `dot` and `bos`, d < T and p = T (Prop. "Robustness via bounded mutual coherence").

Tokens are a frame, compared by B = I / (4L), and unit j reads e_j. The overlap of t with a filler s enters twice, when
t looks at s and when unit t reads what it has seen, so it disturbs by its square:

    z_t = 1 + (k + sum of <e_s, e_t>^2 over the fillers s) / (4L) + b.

The identity on the self path opens the gate of unit t alone: another unit gets at most
<e_j, e_t> + max |overlap| / 4. (The paper has B = I / L, where this needs overlaps below 1/2.) `$` = 0 in `bos`.
Attention compares here, and yet each token's count is read by its own unit: told another token on the self path, the
model finds that unit's sum gone. The paper lists it under IC for its p = T units; the verdict calls it mixed (gated),
since without attention's comparison nothing is left of the count.
"""

from __future__ import annotations

import math

import torch

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.framed import find_frame


def need_coherence(L: int) -> float:
    return 1 / math.sqrt(L - 1) if L > 2 else 0.5


def need_squares(L: int) -> float:
    return 1 / (2 * L - 3) if L > 2 else 0.5


def dot_coherent(size: Size) -> Circuit:
    return _framed(size, "coherence", need_coherence(size.L), bos=False)


def bos_coherent(size: Size) -> Circuit:
    return _framed(size, "coherence", need_coherence(size.L), bos=True)


def dot_compact(size: Size) -> Circuit:
    """Ours: the squared overlaps need not be small, only alike."""
    return _framed(size, "squares", need_squares(size.L), bos=False)


def bos_compact(size: Size) -> Circuit:
    return _framed(size, "squares", need_squares(size.L), bos=True)


def _framed(size: Size, measure: str, need: float, bos: bool) -> Circuit:
    frame = find_frame(size.T, min(size.d, size.T), measure, need, size.seed)
    tokens = frame.vectors
    return Circuit(
        embeddings=torch.nn.functional.pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=torch.eye(tokens.shape[1], dtype=torch.float64) / (4 * size.L),
        W_in=tokens.T,
        facts={measure: frame.value},
    )
