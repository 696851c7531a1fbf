"""IC where attention could compare: `dot`, `bos` and `bos+sftm` with p = T, built not to.

Nothing in the paper forbids these variants to count by inventory; these models do, so that no verdict can follow the
architecture's name.

`dot`, `bos`: orthonormal tokens, and the form B = c c^T / L compares only what all tokens have in common, their shared
coordinate c = e_1 + ... + e_T. Every token scores 1/L with every token: the constant mixing of `lin`. `$` = 0.

`bos+sftm`: no comparison at all, B = 0. Every position, `$` too, gets the share 1/(L + 1). `$` = 0 adds nothing.

The feed-forward layer is that of `lin`: unit j reads e_j with bias -1.
"""

from __future__ import annotations

import torch

from counting_interp.models.constructions.circuit import Circuit, Size


def _inventory(size: Size, compare: torch.Tensor, bos: bool) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    nothing = torch.zeros(1, size.T, dtype=torch.float64)
    return Circuit(
        embeddings=torch.cat([tokens, nothing]) if bos else tokens,
        compare=compare,
        W_in=tokens,
        b_in=torch.full((size.T,), -1.0, dtype=torch.float64),
    )


def dot(size: Size) -> Circuit:
    return _inventory(size, torch.full((size.T, size.T), 1 / size.L, dtype=torch.float64), bos=False)


def bos(size: Size) -> Circuit:
    return _inventory(size, torch.full((size.T, size.T), 1 / size.L, dtype=torch.float64), bos=True)


def bos_sftm(size: Size) -> Circuit:
    return _inventory(size, torch.zeros(size.T, size.T, dtype=torch.float64), bos=True)
