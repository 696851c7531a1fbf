"""The sequences of the transplants: one listener, nested copies, and fillers at every other position.

Each row of the design has four tokens: t, which is asked about; s, another token; q, a bystander; u, by which loudness
is measured. None of them is a filler. Fillers are distinct as long as the alphabet allows, and repeat in turn where
T < L + 3. With T = 4 the token u is the only filler, and loudness is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.protocol import CountingModel, ModelSpec
from counting_interp.probes.applicability import needs_transplants, refuse
from counting_interp.probes.catalogue import MAX_LEVELS

FARTHEST = 3  # |i1 - i0| at most: longer moves run into the ends of the scale
RARE = 0.005  # a count that a sampler shows less often than this at a position is not one that the model knows
SHARED = 0.5  # of the pairs: the highest count is used if the model is right on it this often


@dataclass(frozen=True, eq=False)
class TransplantDesign:
    """Rows of four tokens, and how their sequences are laid out.

    Attributes:
        tokens: (t, s, q, u) of each row; each token is t equally often up to rounding.
        order: the positions of a sequence in the order in which copies fill them. The first is the listener's: the last
            position of a causal model, any position of another.
        fillers: the token of each position, in that order, while no copy is there.
        counts: how often a token may occur, ascending.
        moves: (i0, i1), where the count starts and where it goes.
        phases: of each row, from -1/2 to 1/2: by how much of a count its answers are shifted before they are rounded to
            a whole count. Evenly spread, so that a share that rounding would hide in one row shows in the mean of all.
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
        """The index of a count next to i0, and how much of the way there is `phases`: upwards or downwards, and at an
        end of the scale away from the only neighbour."""
        start = self.ends[:, :1]
        step = torch.where(self.phases > 0, 1, -1).expand(len(start), -1)
        inside = (start + step >= 0) & (start + step < len(self.counts))
        return torch.where(inside, start + step, start - step), torch.where(inside, 1, -1) * self.phases.abs()

    def sequences(self, listener: int, copied: int) -> Int[Tensor, "count pair pos"]:
        """Role `listener` at the listener's position, and copies of role `copied` such that there are count - 1 others.

        Roles are columns of `tokens`.
        """
        slots = torch.arange(self.order.shape[1], device=self.order.device)
        filled = slots < self.counts[:, None, None]
        held = torch.where(filled, self.tokens[:, copied, None], self.fillers)
        held[..., 0] = self.tokens[:, listener]
        return torch.empty_like(held).scatter_(-1, self.order.expand_as(held), held)

    def copies(self, counts: Int[Tensor, "*n"]) -> Bool[Tensor, "*n pair pos"]:
        """Where the token stands, its listener included, when it occurs so often."""
        slots = torch.arange(self.order.shape[1], device=self.order.device)
        filled = (slots < counts[..., None, None]).expand(*counts.shape, *self.order.shape)
        return torch.empty_like(filled).scatter_(-1, self.order.expand_as(filled), filled)

    def split(self, pairs: int, device: torch.device) -> Iterator[TransplantDesign]:
        """Some rows at a time, on a device."""
        shared = {name: getattr(self, name).to(device) for name in ("counts", "moves")}
        for rows in torch.arange(len(self.tokens)).split(pairs):
            own = {name: getattr(self, name)[rows].to(device) for name in ("tokens", "order", "fillers", "phases")}
            yield replace(self, **shared, **own)


def transplant_design(
    config: ModelSpec, *, highest: int | None = None, n_pairs: int = 64, seed: int = 0
) -> TransplantDesign:
    """Up to `n_pairs` rows that use each token equally often, with counts from 1 to `highest` (L by default)."""
    refuse(needs_transplants(config))
    highest = config.L if highest is None else highest
    if n_pairs < 1 or not 2 <= highest <= config.L:
        raise ValueError(f"n_pairs must be at least 1 and highest in 2..{config.L}, got {n_pairs} and {highest}")
    rng = torch.Generator().manual_seed(seed)
    tokens = _tokens(config.T, n_pairs, rng)
    order = torch.rand(len(tokens), config.L, generator=rng)
    if config.causal:
        order[:, -1] = -1.0  # only the last position sees the whole sequence
    fillers = _fillers(tokens, config.T, config.L, rng)
    phases = (torch.randperm(len(tokens), generator=rng) + 0.5) / len(tokens) - 0.5
    return TransplantDesign(tokens, order.argsort(1), fillers, *_moves(highest), phases)


@torch.no_grad()
def known_counts(model: CountingModel) -> int:
    """The highest count that the model was shown.

    As its sampler says; where that is not known, L if the model knows sequences of one token only, else L - 1 (the
    `published` sampler never shows count L).
    """
    T, L = model.config.T, model.config.L
    samplers = [model.metadata.get(section, {}).get("sampler") for section in ("training", "task")]
    sampler = next((name for name in samplers if name in task.SAMPLERS), None)
    if sampler is not None:
        shown = task.label_distribution(sampler, T=T, L=L, causal=model.config.causal) >= RARE
        return max(3, int(shown.nonzero().max()) + 1)
    tokens = torch.arange(min(T, 64))[:, None].expand(-1, L).contiguous()
    right = (model.predict(tokens.to(model.device))[:, -1] == L).float().mean()
    return L if right >= SHARED else max(3, L - 1)


def _tokens(T: int, n_pairs: int, rng: torch.Generator) -> Int[Tensor, "pair 4"]:
    """Around a circle of the tokens in random order; s, q and u at distances that differ from round to round."""
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
    """Every base, or some evenly spaced ones of a long sequence; every target near it."""
    bases = torch.linspace(1, highest, min(highest, MAX_LEVELS + 3)).round().long().tolist()
    moves = [
        (base, base + step)
        for base in bases
        for step in range(-FARTHEST, FARTHEST + 1)
        if step and 1 <= base + step <= highest
    ]
    counts = sorted({count for move in moves for count in move})
    return torch.tensor(counts), torch.tensor(moves)
