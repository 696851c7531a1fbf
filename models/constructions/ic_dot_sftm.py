"""IC in `dot+sftm`, p = T (Prop. "IC for dot+sftm").

With orthonormal tokens a position that holds t scores 1 with each copy of t and 0 with the rest. The shares sum to
one, so no direction common to all tokens can carry the count. Unit j reads e_j with bias -1:

    z_t = k e / (k e + L - k)                      for the token t at this position: its copies' share,
    z_j = n_j / (k e + L - k) - 1 < 0              for every other token.

The shares are not linear in k; the read-out takes its boundaries between the L values they have.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size


def share(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    return Circuit(
        embeddings=tokens,
        compare=tokens.clone(),
        W_in=tokens.clone(),
        b_in=torch.full((size.T,), -1.0, dtype=torch.float64),
    )
