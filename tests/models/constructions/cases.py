"""Sequences that decide whether a hand-built model counts."""

from __future__ import annotations

from itertools import combinations_with_replacement

import torch
from torch import Tensor


def two_token_sequences(T: int, L: int) -> Tensor:
    """k copies of t, then L - k of s, for all t, s and k."""
    t, k, s = torch.meshgrid(torch.arange(T), torch.arange(1, L + 1), torch.arange(T), indexing="ij")
    positions = torch.arange(L)
    return torch.where(positions < k[..., None], t[..., None], s[..., None]).reshape(-1, L)


def all_multisets(T: int, L: int) -> Tensor:
    """Every sequence of L out of T tokens, up to the order of its tokens."""
    return torch.tensor(list(combinations_with_replacement(range(T), L)))
