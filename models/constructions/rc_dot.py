"""RC in `dot`, p = 1 (Prop. "RC with tagged embeddings").

The tag c = u_1 + ... + u_T, a sum of orthonormal vectors, is added to each of them: e_t = u_t + c. Then
<e_t, e_s> = T + 2 + [t = s] and <e_t, c> = T + 1. With these overlaps as mixing weights, the hidden unit
W_in = c / (T + 1) adds up the weights it is given, the residual counting as one more:

    <x', c> / (T + 1) = 1 + k (T + 3) + (L - k)(T + 2) = k + 1 + L (T + 2),

and the bias leaves y = k.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size


def tagged(size: Size) -> Circuit:
    T, L = size.T, size.L
    tag = torch.ones(T, dtype=torch.float64)
    return Circuit(
        embeddings=torch.eye(T, dtype=torch.float64) + tag,
        compare=torch.eye(T, dtype=torch.float64),
        W_in=tag[:, None] / (T + 1),
        b_in=torch.tensor([-1.0 - L * (T + 2)], dtype=torch.float64),
    )
