"""The sequences of a cue conflict: two tokens t and s with counts (i, j), every other place a different filler.

With distinct fillers no third token has a count worth reading, so a prediction can follow i, follow j, or be lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from models.config import CountingConfig
from probes.applicability import needs_conflict, refuse

MAX_LEVELS = 9  # different counts per token; all of 1..L-1 up to the paper's L = 10


@dataclass(frozen=True, eq=False)
class ConflictDesign:
    """Every pair of tokens with every cell of counts, once each.

    Attributes:
        pairs: (t, s), each token equally often in both roles up to rounding.
        cells: (i, j), how often t and s occur; i, j >= 1 and i + j <= L.
        tokens: the sequences, all cells of the first pair first.
        at: a position that holds t. The positions of a sequence are shuffled, since a constant mixer knows them.
        source: a position that holds s.
    """

    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    tokens: Int[Tensor, "row pos"]
    at: Int[Tensor, "row"]
    source: Int[Tensor, "row"]


def conflict_design(config: CountingConfig, *, n_pairs: int = 128, seed: int = 0) -> ConflictDesign:
    """All ordered pairs of tokens if there are at most `n_pairs`, else a sample that uses each token equally often."""
    refuse(needs_conflict(config))
    if n_pairs < 1:
        raise ValueError(f"n_pairs must be at least 1, got {n_pairs}")
    rng = torch.Generator().manual_seed(seed)
    pairs, cells = _pairs(config.T, n_pairs, rng), _cells(config.L)
    tokens = _in_order(pairs.repeat_interleave(len(cells), 0), cells.repeat(len(pairs), 1), config.T, config.L, rng)
    order = torch.rand(tokens.shape, generator=rng).argsort(1)
    first_s = cells[:, 0].repeat(len(pairs))  # before the shuffle, t stands at 0..i-1 and s at i..i+j-1
    return ConflictDesign(
        pairs=pairs,
        cells=cells,
        tokens=tokens.gather(1, order),
        at=(order == 0).long().argmax(1),
        source=(order == first_s[:, None]).long().argmax(1),
    )


def _pairs(T: int, n_pairs: int, rng: torch.Generator) -> Int[Tensor, "pair 2"]:
    """Around a circle of the tokens in random order, pairs at random distances: a circulant design."""
    circle = torch.randperm(T, generator=rng)
    distances = torch.randperm(T - 1, generator=rng) + 1
    index = torch.arange(min(n_pairs, T * (T - 1)))
    return torch.stack([circle[index % T], circle[(index + distances[index // T]) % T]], 1)


def _cells(L: int) -> Int[Tensor, "cell 2"]:
    levels = torch.linspace(1, L - 1, min(L - 1, MAX_LEVELS)).round().long().tolist()
    return torch.tensor([(i, j) for i in levels for j in levels if i + j <= L])


def _in_order(
    pairs: Int[Tensor, "row 2"], cells: Int[Tensor, "row 2"], T: int, L: int, rng: torch.Generator
) -> Int[Tensor, "row pos"]:
    """t, ..., t, s, ..., s, then fillers that differ from both and from each other."""
    keys = torch.rand(len(pairs), T, generator=rng).scatter_(1, pairs, 2.0)  # t and s sort behind every other token
    fillers = keys.argsort(1)[:, : max(T - 2, 1)]
    place = torch.arange(L)
    after_t, after_s = cells[:, :1], cells.sum(1, keepdim=True)
    filler = fillers.gather(1, (place - after_s).clamp(0, fillers.shape[1] - 1))
    return torch.where(place < after_t, pairs[:, :1], torch.where(place < after_s, pairs[:, 1:], filler))
