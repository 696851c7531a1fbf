"""What copies are worth to a listener, transplanted in a 2 x 2: does the match do it, or the token that was copied?

W_k[u <- v](i0 -> i1) is the change of block k's mixer output at a position that holds u, when the number of *other*
positions that hold v goes from i0 - 1 to i1 - 1. In a sequence with i0 copies of t, one of four worths is added to what
block k's mixer writes at every position of t; later blocks run live. Does the answer become i1?

                                    copies of t            copies of s
    the listener holds the copies   own        W[t <- t]   relation   W[s <- s]
    the listener is a bystander q   inventory  W[q <- t]   null       W[q <- s]

Relation alone is enough where attention's match carries the count and nobody asks which token matched: RC. Inventory
alone is enough where no match is needed: IC. What takes both is gated. The null must do nothing and is taken away.

A bystander may listen louder or softer to everything. So inventory and null are multiplied by
lambda = <W[t <- u], W[q <- u]> / |W[q <- u]|^2, with a fourth token u.

Proved: where no weight depends on the query, inventory equals own and relation equals null (P1). Where unequal tokens
get no weight, inventory and null are zero (P2). Both hold in the first block that mixes, whatever follows it.

An answer is a whole number, and a share of a half would be rounded away. So each row adds a *phase* to all of its
transplants: a fraction, from -1/2 to 1/2, of the worth of one more copy (`before` is the phase alone).

All it needs of a model is one hook point in each block, the mixer's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models.counter import Counter
from counting_interp.models.evaluation import batch_size
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes import shares as rule
from counting_interp.probes.applicability import check_finite, check_layer
from counting_interp.probes.result import Result, Scalar, scalar
from counting_interp.probes.shares import DOWN, KINDS, UP, Shares
from counting_interp.probes.transplant_design import TransplantDesign, known_counts, transplant_design

T_TOKEN, S_TOKEN, Q_TOKEN, U_TOKEN = range(4)  # columns of a design's tokens
WORTHS = ((T_TOKEN, T_TOKEN), (S_TOKEN, S_TOKEN), (Q_TOKEN, T_TOKEN), (Q_TOKEN, S_TOKEN))  # (listener, copies)
LOUDNESS = ((T_TOKEN, U_TOKEN), (Q_TOKEN, U_TOKEN))
FAINT, LOUDEST = 0.02, 20.0  # of own, below which loudness is not measured; lambda at most
SIDE_BY_SIDE = 0.9  # relay from which on nothing is handed on between positions


@dataclass(frozen=True, eq=False)
class Transplants(Result):
    """Answers under the four transplants, block by block, and what they say.

    Attributes:
        T: size of the alphabet.
        blocks: which blocks were asked, ascending.
        tokens: (t, s, q, u) of each row.
        counts: how often t occurs.
        moves: (i0, i1).
        natural: the answer at a position of t for each of `counts`, nothing changed.
        answers: under each transplant of `counting_interp.probes.shares.KINDS`, in each block.
        relayed: the answer for each of `counts` when every other copy's mixer outputs are those of a token that stands
            alone. Equal to `natural` in a model of one block.
    """

    probe: ClassVar[str] = "transplants"
    T: int
    blocks: tuple[int, ...]
    tokens: Int[Tensor, "pair 4"]
    counts: Int[Tensor, "count"]
    moves: Int[Tensor, "move 2"]
    natural: Int[Tensor, "pair count"]
    answers: Int[Tensor, "block kind pair move"]
    relayed: Int[Tensor, "pair count"]
    seed: int = 0

    # --- agreements ----------------------------------------------------------------------------------------------

    @cached_property
    def agreements(self) -> Float[Tensor, "block direction 4"]:
        """See `counting_interp.probes.shares.agreements`, over all rows and moves."""
        return self._replicates[:, 0]

    @cached_property
    def _replicates(self) -> Float[Tensor, "block replicate direction 4"]:
        rows = rule.bootstrap(len(self.tokens), self.seed)
        return torch.stack([rule.agreements(block, self.moves, rows) for block in self.answers])

    @property
    def moved(self) -> Float[Tensor, "block"]:
        """How far own alone moves the answer in each block, over the count: the larger of both directions."""
        return self.agreements[..., 0].amax(-1)

    @property
    def relay(self) -> float:
        """What is left of the count when no other copy knows of it: 1 where nothing is handed on."""
        first = self.natural[:, :1]
        lost, whole = (self.relayed - self.natural).abs().sum(), (self.natural - first).abs().sum()
        return 1 - float(lost) / max(float(whole), 1.0)

    # --- verdict -------------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> Float[Tensor, "block"]:
        """Whose shares are the verdict. The first block that moves the answer, where blocks hand the count on. Blocks
        that work side by side count as they move it. All zero where no block moves it."""
        moving = (self.moved >= rule.MOVES).double()
        if self.relay < SIDE_BY_SIDE:
            return moving * (moving.cumsum(0) == 1)
        useful = moving * self.moved * rule.shares(self.agreements)[:, 0].isfinite()
        return (useful if useful.any() else moving) / max(float((useful if useful.any() else moving).sum()), 1e-9)

    @cached_property
    def shares(self) -> Shares:
        """With 95 % intervals over rows; NaN where nothing can be said (see `reason`)."""
        asked = self.weights > 0
        each = rule.shares(self._replicates[asked])
        return rule.estimated(
            (self.weights[asked, None, None] * each).sum(0) if asked.any() else each.new_full((2, 3), torch.nan)
        )

    @cached_property
    def label(self) -> str:
        """The short name of the shares; empty where nothing can be said (see `reason`)."""
        asked = self.weights > 0
        if not asked.any():
            return ""
        sums = (self.weights[asked, None] * rule.net(self.agreements[asked]).sum(-1)).sum(0)
        values = (self.shares.rc.value, self.shares.ic.value, self.shares.gated.value)
        return rule.name_of(*values, up=float(sums[UP]), down=float(sums[DOWN]))

    @property
    def reason(self) -> str:
        """Why there is no label, in a sentence; empty where there is one."""
        if self.label:
            return ""
        if not (self.weights > 0).any():
            most = float(self.moved.max())
            return f"no block moves the answer by itself: at most {most:.2f} of the count, and {rule.MOVES} is needed"
        null = self.agreements[self.weights > 0][..., 3].min()
        return f"copies of another token move the answer as copies of the token itself do (null {float(null):.2f})"

    # --- tables --------------------------------------------------------------------------------------------------

    def by_token(self) -> list[dict[str, Scalar]]:
        """Shares of each token t, from the rows that ask about it."""
        groups = nn.functional.one_hot(self.tokens[:, T_TOKEN], self.T).T
        return [{"token": t, **row} for t, row in enumerate(self._grouped(groups)) if groups[t].any()]

    def by_pair(self) -> list[dict[str, Scalar]]:
        """Shares of each row."""
        named = [dict(zip("tsqu", row, strict=True)) for row in self.tokens.tolist()]
        return [{**names, **row} for names, row in zip(named, self._grouped(torch.eye(len(named))), strict=True)]

    def by_count(self) -> list[dict[str, Scalar]]:
        """Shares of the moves that start at each count."""
        rows = []
        for count in self.counts.tolist():
            chosen = self.moves[:, 0] == count
            if chosen.any():
                rows.append({"count": count, **self._grouped(torch.ones(1, len(self.tokens)), chosen)[0]})
        return rows

    def _grouped(self, groups: Tensor, chosen: Bool[Tensor, "move"] | None = None) -> list[dict[str, Scalar]]:
        chosen = torch.ones(len(self.moves), dtype=torch.bool) if chosen is None else chosen
        each = torch.stack(
            [rule.shares(rule.agreements(block[..., chosen], self.moves[chosen], groups)) for block in self.answers]
        )
        asked = self.weights > 0
        pooled = (self.weights[asked, None, None] * each[asked]).sum(0) if asked.any() else each[0] * torch.nan
        return [dict(zip(("rc", "ic", "gated"), map(scalar, row), strict=True)) for row in pooled]

    @property
    def summary(self) -> dict[str, Scalar]:
        up, down = (torch.einsum("b,bk->k", self.weights, self.agreements[:, way].nan_to_num()) for way in (UP, DOWN))
        return {
            "label": self.label or "none",
            "rc": scalar(self.shares.rc.value),
            "ic": scalar(self.shares.ic.value),
            "gated": scalar(self.shares.gated.value),
            "relation_up": float(up[1]),
            "relation_down": float(down[1]),
            "inventory_up": float(up[2]),
            "inventory_down": float(down[2]),
            "null": float(torch.maximum(up, down)[3]),
            "own_moves": float(self.moved.max()),
            "block": int((self.weights > 0).nonzero()[0]) if (self.weights > 0).any() else None,
            "relay": self.relay,
            "pairs": len(self.tokens),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        """A row for each block, direction and kind."""
        table = []
        for block, weight, agree in zip(self.blocks, self.weights.tolist(), self.agreements, strict=True):
            kept = rule.shares(agree)
            for way, name in ((UP, "up"), (DOWN, "down")):
                numbers = dict(zip(("own_moves", *KINDS[2:]), map(scalar, agree[way]), strict=True))
                named = dict(zip(("rc", "ic", "gated"), map(scalar, kept), strict=True))
                table.append({"block": block, "weight": weight, "direction": name, **numbers, **named})
        return table


@torch.no_grad()
def transplants(
    model: Counter,
    *,
    layer: int | Sequence[int] | None = None,
    highest: int | None = None,
    n_pairs: int = 64,
    seed: int = 0,
) -> Transplants:
    """Transplant in every block, in some, or in one.

    Args:
        layer: a block or several; all of them when absent.
        highest: the largest count to use; what the model was shown when absent (`known_counts`).
        n_pairs: rows of the design.
        seed: of the design, and of the bootstrap.

    Raises:
        NotApplicable: where T < 4 or L < 3, or the model's activations overflow.
    """
    config = model.config
    blocks = tuple(range(config.n_layers)) if layer is None else (layer,) if isinstance(layer, int) else tuple(layer)
    for block in blocks:
        check_layer(config, block)
    design = transplant_design(config, n_pairs=n_pairs, seed=seed)  # refuses
    if (most := known_counts(model) if highest is None else highest) != config.L:
        design = transplant_design(config, highest=most, n_pairs=n_pairs, seed=seed)
    parts = []
    for rows in design.split(max(1, batch_size(config) // len(design.counts)), model.device):
        natural, worths = record_worths(model, rows)
        logits = [transplanted(model, rows, block, worths[block]) for block in blocks]
        relayed = natural if config.n_layers == 1 else _relayed(model, rows)
        parts.append([x.cpu() for x in (natural, torch.stack(logits), relayed)])
    natural, answers, relayed = (torch.cat(same, -2) for same in zip(*parts, strict=True))
    check_finite(answers, "answers under transplants")

    def said(logits: Tensor) -> Tensor:
        return logits.argmax(-1) + config.first_count

    return Transplants(
        T=config.T,
        blocks=blocks,
        tokens=design.tokens,
        counts=design.counts,
        moves=design.moves,
        natural=said(natural).T,
        answers=said(answers).transpose(-1, -2),
        relayed=said(relayed).T,
        seed=seed,
    )


# --- running: everything below can be differentiated ---------------------------------------------------------------


def record_worths(
    model: Counter, design: TransplantDesign
) -> tuple[Float[Tensor, "count pair class"], Float[Tensor, "block kind move pair d_model"]]:
    """The model's logits on sequences with each count of t, and what each transplant of KINDS adds in every
    block, loudness and phase included."""
    runs = [record(model, design.sequences(*roles), design.at) for roles in (*WORTHS, *LOUDNESS)]
    outputs = torch.stack([written for _, written in runs], 1)  # [block, role, count, pair, d_model]
    start, end = design.ends.T
    worths = outputs[:, :, end] - outputs[:, :, start]
    by_t, by_q = worths[:, 4], worths[:, 5]
    size = by_q.square().sum(-1)
    heard = size > FAINT**2 * worths[:, 0].square().sum(-1)
    loudness = torch.where(heard, (by_t * by_q).sum(-1) / size.clamp_min(1e-30), 1.0).clamp(0, LOUDEST)
    near, fraction = design.shift
    pairs = torch.arange(len(design.tokens), device=near.device)
    phase = fraction[..., None] * (outputs[:, 0, near, pairs] - outputs[:, 0, start])
    own, relation, inventory, null = worths[:, :4].unbind(1)
    loud = loudness[..., None]
    kinds = [phase, phase + own, phase + relation, phase + loud * inventory, phase + loud * null]
    return runs[0][0], torch.stack(kinds, 1)


def record(
    model: Counter, tokens: Int[Tensor, "*rows pos"], at: Int[Tensor, "*tail"]
) -> tuple[Float[Tensor, "*rows class"], Float[Tensor, "block *rows d_model"]]:
    """Logits at `at`, and what each block's mixer writes there."""
    flat, where = tokens.flatten(0, -2), at.expand(tokens.shape[:-1]).flatten()
    said, written = [], []
    for part, place in zip(*(x.split(batch_size(model.config)) for x in (flat, where)), strict=True):
        here, kept = torch.arange(len(part), device=part.device), list[Tensor]()

        def keep(value: Tensor, hook: Any, here: Tensor = here, place: Tensor = place, kept: list = kept) -> None:
            kept.append(value[here, model.config.front + place])

        points = [(_point(block), keep) for block in range(model.config.n_layers)]
        said.append(model.run_with_hooks(part, fwd_hooks=points)[here, place])
        written.append(torch.stack(kept))
    return torch.cat(said).unflatten(0, tokens.shape[:-1]), torch.cat(written, 1).unflatten(1, tokens.shape[:-1])


def transplanted(
    model: Counter, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """Logits at the listener's position when a worth is added at every position of t."""
    if isinstance(model, CountingTransformer):
        return resumed(model, design, layer, worths)
    return hooked(model, design, layer, worths)


def hooked(
    model: Counter, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """By a hook on the mixer's output: the definition."""
    shape, front = worths.shape[:-1], model.config.front
    base = design.sequences(T_TOKEN, T_TOKEN)[design.ends[:, 0]]
    copies = design.copies(design.moves[:, 0])
    flat = (base.expand(*shape, -1), copies.expand(*shape, -1), design.at.expand(shape)[..., None], worths)
    said = []
    for tokens, places, at, worth in zip(*(x.flatten(0, 2).split(batch_size(model.config)) for x in flat), strict=True):

        def add(value: Tensor, hook: Any, places: Tensor = places, worth: Tensor = worth) -> Tensor:
            behind = value.shape[1] - front - places.shape[1]
            return value + nn.functional.pad(places, (front, behind))[..., None] * worth[:, None]

        logits = model.run_with_hooks(tokens, fwd_hooks=[(_point(layer), add)])
        said.append(logits[torch.arange(len(tokens), device=tokens.device), at[:, 0]])
    return torch.cat(said).unflatten(0, shape)


def resumed(
    model: CountingTransformer, design: TransplantDesign, layer: int, worths: Float[Tensor, "kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """The same as `hooked`, without repeating what comes before the transplant; in the last block, at one position."""
    front, last = model.config.front, layer == model.config.n_layers - 1
    at = front + design.at
    streams = list[Tensor]()
    for tokens in design.sequences(T_TOKEN, T_TOKEN):  # of one count at a time

        def keep(value: Tensor, hook: Any) -> None:
            streams.append(value[torch.arange(len(at), device=at.device), at][:, None] if last else value)

        model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.{layer}.hook_resid_mid", keep)])
    stream = torch.stack(streams)[design.ends[:, 0]]  # [move, pair, pos, d_model]
    if last:
        mixed = stream[..., 0, :] + worths
        block = model.blocks[layer]
        return block.mlp(block.ln2(mixed))
    places = nn.functional.pad(design.copies(design.moves[:, 0]), (front, 0))[..., None]
    said = []
    for worth in worths:
        x = (stream + places * worth[:, :, None]).flatten(0, 1)
        x = model.blocks[layer].mlp(model.blocks[layer].ln2(x))
        for block in model.blocks[layer + 1 :]:
            x = block(x)
        said.append(x.unflatten(0, worth.shape[:2])[:, torch.arange(len(at), device=at.device), at])
    return torch.stack(said)


def _relayed(model: Counter, design: TransplantDesign) -> Float[Tensor, "count pair class"]:
    """Logits when, in all blocks, every copy but the listener writes what a token that stands alone there would."""
    length, front = design.order.shape[1], model.config.front
    slots = torch.arange(length, device=design.order.device)
    lonely = torch.where(slots == slots[:, None, None], design.tokens[:, T_TOKEN, None], design.fillers)
    alone = torch.empty_like(lonely).scatter_(-1, design.order.expand_as(lonely), lonely)
    _, written = record(model, alone, design.order.T)  # [block, slot, pair, d_model]
    by_position = torch.empty_like(written).scatter_(1, design.order.T[None, ..., None].expand_as(written), written)
    by_position = nn.functional.pad(by_position.transpose(1, 2), (0, 0, front, 0))  # [block, pair, inner_pos, d_model]
    others = design.copies(design.counts).scatter(-1, design.at[:, None].expand(len(design.counts), -1, 1), False)
    said = []
    for tokens, places in zip(design.sequences(T_TOKEN, T_TOKEN), others, strict=True):

        def write(block: int, places: Tensor = places) -> Any:
            def swap(value: Tensor, hook: Any) -> Tensor:
                behind = value.shape[1] - front - length
                told = nn.functional.pad(by_position[block], (0, 0, 0, behind))
                return torch.where(nn.functional.pad(places, (front, behind))[..., None], told, value)

            return _point(block), swap

        logits = model.run_with_hooks(tokens, fwd_hooks=[write(block) for block in range(model.config.n_layers)])
        said.append(logits[torch.arange(len(tokens), device=tokens.device), design.at])
    return torch.stack(said)


def _point(block: int) -> str:
    return f"blocks.{block}.hook_attn_out"
