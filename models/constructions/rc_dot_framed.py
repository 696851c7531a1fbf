"""RC in `dot` and `bos` with d <= T (Prop. "Robustness via bounded mutual coherence"), p = 1.

Tokens are a frame v_1 ... v_T in R^(d-1) with a tag: e_t = (v_t, 1). The form B compares the first d - 1 coordinates
and leaves the tag out (the paper compares all of e_t and makes the tag small instead), and the hidden unit reads the
tag, that is, adds up the weights:

    y = 1 + k + sum of <v_s, v_t> over the fillers s + b.

`framed` says when neighbouring counts stay apart; b makes the smallest value 1. `$` = 0 in `bos`.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.framed import find_frame


def need(L: int) -> float:
    return 1 / (2 * L - 3)


def dot_coherent(size: Size) -> Circuit:
    return _framed(size, "coherence", bos=False)


def bos_coherent(size: Size) -> Circuit:
    return _framed(size, "coherence", bos=True)


def dot_compact(size: Size) -> Circuit:
    """Ours: the overlaps need not be small, only alike."""
    return _framed(size, "band", bos=False)


def bos_compact(size: Size) -> Circuit:
    return _framed(size, "band", bos=True)


def _framed(size: Size, measure: str, bos: bool) -> Circuit:
    frame = find_frame(size.T, min(size.d - 1, size.T), measure, need(size.L), size.seed)
    dimensions = frame.vectors.shape[1]
    tokens = torch.nn.functional.pad(frame.vectors, (0, 1), value=1.0)
    tag = torch.zeros(dimensions + 1, dtype=torch.float64)
    tag[-1] = 1
    smallest = 2 + (size.L - 1) * float((frame.vectors @ frame.vectors.T).min())
    return Circuit(
        embeddings=torch.nn.functional.pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=torch.diag(1 - tag),
        W_in=tag[:, None],
        b_in=torch.tensor([1 - smallest], dtype=torch.float64),
        facts={measure: frame.value},
    )
