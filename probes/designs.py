"""Sequences to measure on: letters for tokens, the paper's example, and designs that are balanced by construction.

- `every_count` holds every (token, count) equally often.
- `conflict_design`, for `cue_conflict`: two tokens t and s with counts (i, j), every other position a different filler.
  No third token has a count that varies, so a prediction can follow i, follow j, or neither. Each sequence comes with
  a *donor*: the same sequence with s at the position that is read.
- `transplant_design`: one listener, nested copies, fillers at every other position. Counts end at L - 1, so a bystander
  has room to hear as many copies as a token that is one of them. Each row has four tokens: t, the counted one; s,
  another token; q, a bystander; u, by which loudness is measured. None of them is a filler. Fillers are distinct where
  the alphabet is large enough, and repeat where T < L + 3. With T = 4 the only filler is u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.protocol import CountingModel, ModelSpec
from counting_interp.models.task import REFERENCE, letter, letters, parse_sequence
from counting_interp.probes.accuracy import trained_on
from counting_interp.probes.applicability import needs_conflict, needs_transplants, refuse
from counting_interp.probes.catalogue import MAX_LEVELS

__all__ = ["REFERENCE", "conflict_design", "every_count", "example", "letter", "letters", "parse_sequence"]

FARTHEST = 3  # largest |i1 - i0|: longer moves run into the ends of the scale
Roles = tuple[int, int]  # of the listener and of the copied token
RARE = 0.005  # of positions: a count that the sampler draws less often counts as unknown to the model


def example(config: ModelSpec) -> Int[Tensor, "pos"]:
    """The paper's example where it fits, else blocks of equal tokens.

    Each block fills half of what is left, which gives the example's counts (5, 3, 1, 1) at L = 10.
    """
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
    """`repeats` sequences for every token t and count k, balanced: tokens and counts are independent factors.

    The other L - k positions follow the paper's sampler, conditioned on k copies of t. Positions are shuffled.

    Returns:
        Sequences with exactly k copies of t, and a position that holds t. In causal models it is the last such
        position, where the true count is k.
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
    where = order.argmin(-1)  # where the shuffle put the first copy
    if config.causal:
        copies = tokens == counted[:, None, None]
        where = (copies * torch.arange(L)).argmax(-1)
    return (
        tokens.reshape(T, repeats, L, L).transpose(1, 2).contiguous(),
        where.reshape(T, repeats, L).transpose(1, 2).contiguous(),
    )


def _others(n: int, counted: Int[Tensor, "row"], T: int, rng: torch.Generator) -> Int[Tensor, "row other"]:
    """For each row, n tokens of the paper's sampler from the alphabet without the counted token."""
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
        at: a position that holds t. Positions are shuffled, since a constant mixer depends on them.
        swapped: the donors, with s at `at`.
    """

    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    tokens: Int[Tensor, "row pos"]
    at: Int[Tensor, "row"]
    swapped: Int[Tensor, "row pos"]

    def split(self, size: int, device: torch.device) -> Iterator[ConflictDesign]:
        """Batches of rows on a device; each has all pairs and cells."""
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
        keys[:, 0] = 2.0  # only the last position sees the whole sequence
    order = keys.argsort(1)  # before the shuffle, the first position holds t
    tokens, holds_t = tokens.gather(1, order), order == 0
    return ConflictDesign(
        pairs=pairs,
        cells=cells,
        tokens=tokens,
        at=holds_t.long().argmax(1),
        swapped=torch.where(holds_t, both[:, 1:], tokens),
    )


def _pairs(T: int, n_pairs: int, rng: torch.Generator) -> Int[Tensor, "pair 2"]:
    """A circulant design: tokens in random order around a circle, paired at random distances."""
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


@dataclass(frozen=True, eq=False)
class TransplantDesign:
    """Rows of four tokens, and how their sequences are laid out.

    Attributes:
        tokens: (t, s, q, u) of each row; each token is t equally often up to rounding.
        order: the positions of a sequence in the order in which copies fill them. The first is the listener's, which in
            causal models is the last position.
        fillers: the filler of each position, in that order.
        counts: how often a token may occur, ascending.
        moves: (i0, i1), the count before and after.
        phases: shift of each row's answers before rounding, from -1/2 to 1/2 of a count. Phases are evenly spread, so a
            share that rounding hides in one row shows in the mean over rows.
    """

    tokens: Int[Tensor, "pair 4"]
    order: Int[Tensor, "pair pos"]
    fillers: Int[Tensor, "pair pos"]
    counts: Int[Tensor, "count"]
    moves: Int[Tensor, "move 2"]
    phases: Float[Tensor, "pair"]

    @property
    def at(self) -> Int[Tensor, "pair"]:
        """The listener's position."""
        return self.order[:, 0]

    @property
    def ends(self) -> Int[Tensor, "move 2"]:
        """The moves as indices into `counts`."""
        return torch.searchsorted(self.counts, self.moves)

    @property
    def shift(self) -> tuple[Int[Tensor, "move pair"], Float[Tensor, "move pair"]]:
        """The phases as a fraction of the step from i0 to a neighbouring count.

        Returns:
            Index of the neighbour in the direction of the phase, and the fraction. At an end of the scale it is the
            only neighbour, with a negative fraction.
        """
        start = self.ends[:, :1]
        step = torch.where(self.phases > 0, 1, -1).expand(len(start), -1)
        inside = (start + step >= 0) & (start + step < len(self.counts))
        return torch.where(inside, start + step, start - step), torch.where(inside, 1, -1) * self.phases.abs()

    def filled(self, roles: Roles) -> Bool[Tensor, "count slot"]:
        """Slots with the copied token or the listener, in the order in which copies fill them.

        A bystander holds no copy itself, so there is one more, in the last slot at every count.
        """
        slots = torch.arange(self.order.shape[1], device=self.order.device)
        return (slots < self.counts[:, None]) | ((slots == len(slots) - 1) & (roles[0] != roles[1]))

    def sequences(self, roles: Roles) -> Int[Tensor, "count pair pos"]:
        """Sequences with as many copies as each count.

        Args:
            roles: of the listener and of the copied token, as columns of `tokens`.
        """
        listener, copied = roles
        held = torch.where(self.filled(roles)[:, None], self.tokens[:, copied, None], self.fillers)
        held[..., 0] = self.tokens[:, listener]
        return torch.empty_like(held).scatter_(-1, self.order.expand_as(held), held)

    def copies(self, counts: Int[Tensor, "*n"]) -> Bool[Tensor, "*n pair pos"]:
        """Positions that hold t when it occurs `counts` times, the listener's included."""
        slots = torch.arange(self.order.shape[1], device=self.order.device)
        filled = (slots < counts[..., None, None]).expand(*counts.shape, *self.order.shape)
        return torch.empty_like(filled).scatter_(-1, self.order.expand_as(filled), filled)

    def split(self, pairs: int, device: torch.device) -> Iterator[TransplantDesign]:
        """Batches of rows on a device."""
        shared = {name: getattr(self, name).to(device) for name in ("counts", "moves")}
        for rows in torch.arange(len(self.tokens)).split(pairs):
            of_rows = {name: getattr(self, name)[rows].to(device) for name in ("tokens", "order", "fillers", "phases")}
            yield replace(self, **shared, **of_rows)


def transplant_design(
    config: ModelSpec, *, highest: int | None = None, n_pairs: int = 64, seed: int = 0
) -> TransplantDesign:
    """Up to `n_pairs` rows that use each token equally often, with counts from 1 to `highest` (L - 1 by default)."""
    refuse(needs_transplants(config))
    highest = config.L - 1 if highest is None else highest
    if n_pairs < 1 or not 2 <= highest < config.L:
        raise ValueError(f"n_pairs must be at least 1 and highest in 2..{config.L - 1}, got {n_pairs} and {highest}")
    rng = torch.Generator().manual_seed(seed)
    tokens = _tokens(config.T, n_pairs, rng)
    order = torch.rand(len(tokens), config.L, generator=rng)
    if config.causal:
        order[:, -1] = -1.0  # only the last position sees the whole sequence
    fillers = _fillers(tokens, config.T, config.L, rng)
    phases = (torch.randperm(len(tokens), generator=rng) + 0.5) / len(tokens) - 0.5
    return TransplantDesign(tokens, order.argsort(1), fillers, *_moves(highest), phases)


def known_counts(model: CountingModel) -> int:
    """The highest count in the model's training data, by its sampler, but at most L - 1; L - 1 if it is unknown."""
    T, L = model.config.T, model.config.L
    if (sampler := trained_on(model)) is None:
        return L - 1
    shown = task.label_distribution(sampler, T=T, L=L, causal=model.config.causal) >= RARE
    return min(L - 1, max(3, int(shown.nonzero().max()) + 1))


def _tokens(T: int, n_pairs: int, rng: torch.Generator) -> Int[Tensor, "pair 4"]:
    """Tokens in random order around a circle; the distances of s, q and u from t differ from round to round."""
    circle = torch.randperm(T, generator=rng)
    row = torch.arange(min(n_pairs, T * (T - 1)))
    rounds = torch.arange(T - 1)
    distances = torch.randperm(T - 1, generator=rng)
    steps = torch.stack([distances[(rounds + shift) % (T - 1)] + 1 for shift in range(3)], 1)  # [round, (s, q, u)]
    index = (row[:, None] + torch.nn.functional.pad(steps, (1, 0))[row // T]) % T
    return circle[index]


def _fillers(tokens: Int[Tensor, "pair 4"], T: int, L: int, rng: torch.Generator) -> Int[Tensor, "pair pos"]:
    keys = torch.rand(len(tokens), T, generator=rng)
    reserved = tokens if T > 4 else tokens[:, :3]
    free = keys.scatter_(1, reserved, 2.0).argsort(1)[:, : T - reserved.shape[1]]
    return free[:, torch.arange(L) % free.shape[1]]


def _moves(highest: int) -> tuple[Int[Tensor, "count"], Int[Tensor, "move 2"]]:
    """Counts and moves: every base (evenly spaced ones for large L), and every target at most FARTHEST away."""
    bases = torch.linspace(1, highest, min(highest, MAX_LEVELS + 3)).round().long().tolist()
    moves = [
        (base, base + step)
        for base in bases
        for step in range(-FARTHEST, FARTHEST + 1)
        if step and 1 <= base + step <= highest
    ]
    counts = sorted({count for move in moves for count in move})
    return torch.tensor(counts), torch.tensor(moves)
