"""IC in `lin` and `lin+sftm`, p = T (Prop. "IC with memorization in the feed-forward layer").

The mixing matrix is 1/L everywhere (through a softmax: equal scores), so every position sees the same average of the
sequence, and the residual adds the token itself. Hidden unit j knows token j, W_in = (e_1 ... e_T), b_in = -1. With
orthonormal embeddings

    z_t = 1 + k/L - 1 = k/L      for the token t at this position,
    z_j = n_j/L - 1 <= 0         for every other token, which the ReLU silences.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size


def inventory(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    return Circuit(embeddings=tokens, W_in=tokens, b_in=torch.full((size.T,), -1.0, dtype=torch.float64))
