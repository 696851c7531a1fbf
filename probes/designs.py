"""Sequences to measure on: letters for tokens, the paper's example, and designs that are balanced by construction.

`every_count` holds every (token, count) equally often. `conflict_design` is for `cue_conflict`:
two tokens t and s with counts (i, j), every other position a different filler. With distinct fillers no third token has
a count worth reading, so a prediction can follow i, follow j, or be lost. Each sequence comes with a *donor*: the same
sequence with s at the position that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.protocol import ModelSpec
from counting_interp.models.task import REFERENCE, letter, letters, parse_sequence
from counting_interp.probes.applicability import needs_conflict, refuse
from counting_interp.probes.catalogue import MAX_LEVELS

__all__ = ["REFERENCE", "conflict_design", "every_count", "example", "letter", "letters", "parse_sequence"]


def example(config: ModelSpec) -> Int[Tensor, "pos"]:
    """The paper's example where it fits; else blocks of equal tokens, each half of what is left, which gives the same
    counts (5, 3, 1, 1) at L = 10."""
    if len(REFERENCE) == config.L and config.T >= 5:
        return parse_sequence(REFERENCE, config)
    blocks: list[int] = []
    while len(blocks) < config.L:
        token = (1 + len(set(blocks))) % config.T
        blocks += [token] * ((config.L - len(blocks) + 1) // 2)
    return torch.tensor(blocks)


def every_count(
    config: ModelSpec, repeats: int, seed: int
) -> tuple[Int[Tensor, "token count repeat pos"], Int[Tensor, "token count repeat"]]:
    """For every token t and count k, `repeats` sequences with exactly k copies of t, and a position that holds t; the
    last of them for causal models, whose answer there is k.

    The other L - k positions follow the paper's sampler, which is its law given that t occurs k times; positions are
    shuffled. Balanced by construction: tokens and counts are independent factors.
    """
    T, L = config.T, config.L
    rng = torch.Generator().manual_seed(seed)
    counted = torch.arange(T).repeat_interleave(repeats)  # [token * repeat]
    tables = []
    for count in range(1, L + 1):
        others = _others(L - count, counted, T, rng)
        tables.append(torch.cat([counted[:, None].expand(-1, count), others], 1))
    tokens = torch.stack(tables, 1)  # [token * repeat, count, pos]
    order = torch.rand(tokens.shape, generator=rng).argsort(-1)
    tokens = tokens.gather(-1, order)
    where = order.argmin(-1)  # the position to which the first copy has gone
    if config.causal:
        copies = tokens == counted[:, None, None]
        where = (copies * torch.arange(L)).argmax(-1)
    return (
        tokens.reshape(T, repeats, L, L).transpose(1, 2).contiguous(),
        where.reshape(T, repeats, L).transpose(1, 2).contiguous(),
    )


def _others(n: int, counted: Int[Tensor, "row"], T: int, rng: torch.Generator) -> Int[Tensor, "row other"]:
    """Per row, n tokens by the paper's sampler from the alphabet without the counted one."""
    if n < 2 or T < 3:
        drawn = torch.randint(T - 1, (len(counted), min(n, 1)), generator=rng).expand(-1, n)
    else:
        drawn = task.sample("paper", len(counted), T=T - 1, L=n, generator=rng)
    return drawn + (drawn >= counted[:, None]).long()


@dataclass(frozen=True, eq=False)
class ConflictDesign:
    """Every pair of tokens with every cell of counts, once each.

    Attributes:
        pairs: (t, s), each token equally often in both roles up to rounding.
        cells: (i, j), how often t and s occur; i, j >= 1 and i + j <= L.
        tokens: the sequences, all cells of the first pair first.
        at: a position that holds t. The positions of a sequence are shuffled, since a constant mixer knows them.
        swapped: the sequences with s at `at`.
    """

    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    tokens: Int[Tensor, "row pos"]
    at: Int[Tensor, "row"]
    swapped: Int[Tensor, "row pos"]

    def split(self, size: int, device: torch.device) -> Iterator[ConflictDesign]:
        """Parts of it, on a device: some of the rows at a time, beside all pairs and cells."""
        names = ("tokens", "at", "swapped")
        for rows in torch.arange(len(self.tokens)).split(size):
            yield replace(self, **{name: getattr(self, name)[rows].to(device) for name in names})


def conflict_design(config: ModelSpec, *, n_pairs: int = 128, seed: int = 0) -> ConflictDesign:
    """All ordered pairs of tokens if there are at most `n_pairs`, else a sample that uses each token equally often."""
    refuse(needs_conflict(config))
    if n_pairs < 1:
        raise ValueError(f"n_pairs must be at least 1, got {n_pairs}")
    rng = torch.Generator().manual_seed(seed)
    pairs, cells = _pairs(config.T, n_pairs, rng), _cells(config.L)
    both = pairs.repeat_interleave(len(cells), 0)
    tokens = _in_order(both, cells.repeat(len(pairs), 1), config.T, config.L, rng)
    keys = torch.rand(tokens.shape, generator=rng)
    if config.causal:
        keys[:, 0] = 2.0  # only the last place sees the whole sequence
    order = keys.argsort(1)  # before the shuffle, the first position holds t
    tokens, here = tokens.gather(1, order), order == 0
    return ConflictDesign(
        pairs=pairs,
        cells=cells,
        tokens=tokens,
        at=here.long().argmax(1),
        swapped=torch.where(here, both[:, 1:], tokens),
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
    position = torch.arange(L)
    after_t, after_s = cells[:, :1], cells.sum(1, keepdim=True)
    filler = fillers.gather(1, (position - after_s).clamp(0, fillers.shape[1] - 1))
    return torch.where(position < after_t, pairs[:, :1], torch.where(position < after_s, pairs[:, 1:], filler))
