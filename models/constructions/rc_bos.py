"""RC in `bos`, p = 1 (Prop. "RC with BOS token", and its alternative proof with $ = 0).

Tokens are orthonormal: a position that holds t gives weight 1 to each copy of t and 0 to every other token. One hidden
unit reads the direction that all tokens share, e_1 + ... + e_T, and so adds up the weights: y = k.

`$` = e_1 + ... + e_T: each token sees it with weight 1; it adds T, the residual adds 1, and the bias takes both away.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.rc_dot import tagged


def bos(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    shared = tokens.sum(0)
    return Circuit(
        embeddings=torch.cat([tokens, shared[None]]),
        compare=torch.eye(size.T, dtype=torch.float64),
        W_in=shared[:, None],
        b_in=torch.tensor([-1.0 - size.T], dtype=torch.float64),
    )


def bos_tagged(size: Size) -> Circuit:
    """`$` = 0 is not seen and adds nothing: the model is the `dot` model with tagged embeddings."""
    circuit = tagged(size)
    nothing = torch.zeros(1, size.T, dtype=torch.float64)
    return Circuit(
        embeddings=torch.cat([circuit.embeddings, nothing]),
        compare=circuit.compare,
        W_in=circuit.W_in,
        b_in=circuit.b_in,
    )
