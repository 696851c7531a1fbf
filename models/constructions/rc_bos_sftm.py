"""RC in `bos+sftm`, p = 1 (Prop. "RC with BOS token"): the share of attention that `$` gets tells the count.

Orthonormal tokens and `$` = e_1 + ... + e_T: a position that holds t scores 1 with `$` and with each copy of t, and 0
with the rest. After the softmax `$` has the share a = e / ((k + 1) e + L - k), which falls with k. The hidden unit
reads `$` itself; every token adds its own share times 1, so

    y = T a + (1 - a) + 1 + b_in = (T - 1) a + 1,      b_in = -1.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size


def share(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    shared = tokens.sum(0)
    return Circuit(
        embeddings=torch.cat([tokens, shared[None]]),
        compare=torch.eye(size.T, dtype=torch.float64),
        W_in=shared[:, None],
        b_in=torch.tensor([-1.0], dtype=torch.float64),
    )
