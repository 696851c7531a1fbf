"""Transplants: does attention's match carry the count, or the identity of the token that was copied?

The *worth* W_k[u <- v](i0 -> i1) is a change of block k's mixer output at a position that holds u, the listener, when
the number of copies of v in the sequence goes from i0 to i1. In a sequence with i0 copies of t, one of four worths is
added to block k's mixer output at every position of t. Later blocks run live. Does the answer become i1?

                                    copies of t            copies of s
    the listener holds the copies   own        W[t <- t]   relation   W[s <- s]
    the listener is a bystander q   inventory  W[q <- t]   null       W[q <- s]

RC: relation alone moves the answer, since attention's match carries the count and the token that matched is not read.
IC: inventory alone moves the answer, since no match is needed. Gated: it takes both. The null should move nothing, and
what it moves is subtracted.

A bystander may attend to everything with larger or smaller weights, its *loudness*. So inventory and null are
multiplied by lambda = <D_t, D_q> / |D_q|^2, with a fourth token u and D_x = W[x <- u] - W[x <- s]: in the difference
the fillers that copies displace cancel.

The listener of own is one of the copies, and a bystander is not. It hears another step where attention saturates and a
position gives itself another weight. So where the model shows its queries, inventory and null are also measured *by
queries*: a position of t, or of s, has the queries of q, with all keys and values live. In each block the inventory
with the larger share, net of its null, counts.

Proved: where attention weights do not depend on the tokens, inventory equals own and relation equals null (P1). Where
they do not depend on the query's token, the same holds by queries. Where unequal tokens get no weight, inventory and
null are zero (P2). All hold in each block, whatever follows it.

An answer is a whole number, so rounding would hide a share of a half. Each row therefore adds a *phase* to all of its
transplants: a fraction, from -1/2 to 1/2, of the worth of one more copy (`before` is the phase alone).

The worths of a block are recorded without earlier counts. In all blocks before it, every mixer writes its output for a
token that occurs once. Otherwise a block could pass an earlier count on, which would look like a match. So P1 and
P2 hold in every block.

A model needs one hook point in each block, the mixer's output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.probes import shares as rule
from counting_interp.probes.applicability import check_finite, check_layer, needs_transplants, refuse
from counting_interp.probes.designs import known_counts, transplant_design
from counting_interp.probes.result import Result, Scalar, scalar
from counting_interp.probes.shares import DOWN, KINDS, SIDE_BY_SIDE, UP, Estimate, Shares
from counting_interp.probes.worths import (
    T_TOKEN,
    elsewhere,
    record_worths,
    relayed,
    shows_queries,
    transplanted,
)

DEEP = 4  # blocks; in deeper models a single block may move the answer too little for a label


@dataclass(frozen=True, eq=False)
class Transplants(Result):
    """Answers under the four transplants, block by block, and the shares and label that follow.

    Attributes:
        T: size of the alphabet.
        blocks: the blocks that were measured, ascending.
        tokens: (t, s, q, u) of each row.
        counts: how often t occurs.
        moves: (i0, i1).
        natural: the answer at a position of t for each of `counts`, without intervention.
        answers: the answers under each transplant of `counting_interp.probes.shares.KINDS`, in each block.
        by_queries: whether inventory and null were measured by queries, in each block; None where queries are hidden.
        relayed: the answer for each of `counts` when the mixer outputs of every other copy are those of a token that
            occurs once. Equal to `natural` in a model of one block.
        heard: the answer when, in each block, the mixer outputs at all positions *without* t are patched from a run
            with i1 copies of t. Unchanged in the last block, since no attention reads other positions after it.
    """

    probe: ClassVar[str] = "transplants"
    meanings: ClassVar[dict[str, str]] = {
        "label": "the short name of the shares",
        "rc": "share of the count that attention's match carries alone",
        "ic": "share that does without a match",
        "gated": "share that needs the match and the token that is asked about",
        "relation_up": "another token's worth, where it is matched, does what the own one does: upwards",
        "relation_down": "the same downwards",
        "inventory_up": "the token's own worth to a bystander does what the matched one does: upwards",
        "inventory_down": "the same downwards",
        "null": "another token's worth to a bystander does it: the larger of both directions",
        "own_moves": "change of the answer under the token's own worth, over the count's, in the strongest block",
        "block": "the first block whose shares these are",
        "relay": "share of the count that is left when no other copy knows of it: 1 where nothing is handed on",
        "elsewhere": "share of the count that positions without the token gather and hand on, in the strongest block",
        "by_queries": "inventory is the worth to a position that asks as the bystander; empty where queries are hidden",
        "pairs": "rows of four tokens",
    }
    T: int
    blocks: tuple[int, ...]
    tokens: Int[Tensor, "pair 4"]
    counts: Int[Tensor, "count"]
    moves: Int[Tensor, "move 2"]
    natural: Int[Tensor, "pair count"]
    answers: Int[Tensor, "block kind pair move"]
    by_queries: tuple[bool, ...] | None
    relayed: Int[Tensor, "pair count"]
    heard: Int[Tensor, "block pair move"]
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
        """Change of the answer under own over the change of the count, in each block; the larger of both directions."""
        return self.agreements[..., 0].amax(-1)

    @property
    def moves_estimate(self) -> Estimate:
        """`moved` of the block where it is largest, with its interval."""
        strongest = self._replicates[int(self.moved.argmax()), ..., 0].amax(-1)
        ((value,), (low,), (high,)) = rule.interval(strongest[:, None])
        return Estimate("moves", value, low, high)

    @property
    def relay(self) -> float:
        """Share of the count that survives when no other copy has it; 1 where copies do not pass it on."""
        first = self.natural[:, :1]
        lost, whole = (self.relayed - self.natural).abs().sum(), (self.natural - first).abs().sum()
        return 1 - float(lost) / max(float(whole), 1.0)

    @property
    def elsewhere(self) -> Float[Tensor, "block"]:
        """Change of the answer over the change of the count, by what positions without t gather in each block.

        It is the larger of both directions.
        """
        start = torch.searchsorted(self.counts, self.moves[:, 0].contiguous())
        moved = (self.heard - self.natural[:, start]).abs().double().sum(1)  # [block, move]
        step = (self.moves[:, 1] - self.moves[:, 0]).double()
        ways = torch.stack([step > 0, step < 0]).double()
        return (moved @ ways.T / (len(self.tokens) * (ways @ step.abs()))).amax(-1)

    # --- verdict -------------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> Float[Tensor, "block"]:
        """Weight of each block's shares in the verdict; all zero where no block moves the answer.

        Where copies pass the count on, the first block that moves the answer decides. Where blocks work side by side,
        each has a weight in proportion to how far it moves the answer.
        """
        moving = (self.moved >= rule.MOVES).double()
        if self.relay < SIDE_BY_SIDE:
            return moving * (moving.cumsum(0) == 1)
        useful = moving * self.moved * rule.shares(self.agreements)[:, 0].isfinite()
        chosen = useful if useful.any() else moving
        return chosen / chosen.sum().clamp_min(1e-9)

    @cached_property
    def shares(self) -> Shares:
        """The shares with 95 % intervals over rows; NaN where no block decides (see `reason`)."""
        decides = self.weights > 0
        each = rule.shares(self._replicates[decides])
        return rule.estimated(
            (self.weights[decides, None, None] * each).sum(0) if decides.any() else each.new_full((2, 3), torch.nan)
        )

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """The shares, then the agreement of the four transplants with own, in the blocks that decide.

        Each is the smaller of both directions, the null the larger.
        """
        decides = self.weights > 0
        weighted = torch.einsum("b,brdk->rdk", self.weights[decides], self._replicates[decides].nan_to_num())
        cells = torch.cat([weighted[..., :3].amin(1), weighted[..., 3:].amax(1)], -1)
        shares = (self.shares.rc, self.shares.ic, self.shares.gated)
        named = zip(rule.CELLS, *rule.interval(cells), strict=True)
        return (*shares, *(Estimate(name, value, low, high, rule.CELLS[name]) for name, value, low, high in named))

    @cached_property
    def label(self) -> str:
        """The short name of the shares; empty where there is none (see `reason`)."""
        decides = self.weights > 0
        if not decides.any() or len(self.blocks) > DEEP or self._disputed is not None:
            return ""
        sums = (self.weights[decides, None] * rule.net(self.agreements[decides]).sum(-1)).sum(0)
        values = (self.shares.rc.value, self.shares.ic.value, self.shares.gated.value)
        name = rule.name_of(*values, up=float(sums[UP]), down=float(sums[DOWN]))
        return name if name == "IC" or self._gathered_elsewhere < rule.MOVES else ""

    @property
    def _disputed(self) -> int | None:
        """Index of a later block that also moves the answer, with another label; None where there is none.

        Where copies pass the count on, it is not known how much of the answer is due to each of the two blocks.
        """
        decides = int((self.weights > 0).nonzero()[0])
        names = [rule.label(block) for block in self.agreements]
        later = range(decides + 1, len(names)) if self.relay < SIDE_BY_SIDE else ()
        others = (b for b in later if self.moved[b] >= rule.QUARTER and names[b] not in ("", names[decides]))
        return next(others, None)

    @property
    def _gathered_elsewhere(self) -> float:
        """The largest `elsewhere` of the blocks up to the last one that decides.

        A position without t has no match, so what it gathers of t is an inventory. Transplants at the positions of t do
        not reach it.
        """
        decides = (self.weights > 0).nonzero()
        last = int(decides.max()) if len(decides) else len(self.blocks) - 1
        return float(self.elsewhere[: last + 1].max())

    @property
    def reason(self) -> str:
        """Why there is no label; empty where there is one."""
        if self.label:
            return ""
        if len(self.blocks) > DEEP:
            return f"of {len(self.blocks)} blocks no single one need show who counts; see probes.depth_profile"
        if (self.weights > 0).any() and (other := self._disputed) is not None:
            first = int((self.weights > 0).nonzero()[0])
            decides, later = (
                f"block {self.blocks[b] + 1} says {rule.label(self.agreements[b])}" for b in (first, other)
            )
            return (
                f"{decides}, {later} and moves the answer by {float(self.moved[other]):.2f}, and a count is handed on"
            )
        if self._gathered_elsewhere >= rule.MOVES:
            share = f"{self._gathered_elsewhere:.2f}"
            return (
                f"positions without the token gather {share} of its count and hand it on, where no transplant reaches"
            )
        if not (self.weights > 0).any():
            most = float(self.moved.max())
            return f"no block moves the answer by itself: at most {most:.2f} of the count, and {rule.MOVES} is needed"
        parts = []
        for name, (own, _, _, null) in zip(("up", "down"), self.agreements[self.weights > 0][0].tolist(), strict=True):
            parts.append(
                f"{name}wards own copies move it by {own:.2f} of the count only"
                if own < rule.MOVES
                else f"{name}wards another token's copies move the answer as its own do (null {null:.2f})"
            )
        return "; ".join(parts)

    # --- tables --------------------------------------------------------------------------------------------------

    def by_token(self) -> list[dict[str, Scalar]]:
        """Shares for each token, from the rows in which it is t."""
        groups = nn.functional.one_hot(self.tokens[:, T_TOKEN], self.T).T
        return [{"token": t, **row} for t, row in enumerate(self._grouped(groups)) if groups[t].any()]

    def by_pair(self) -> list[dict[str, Scalar]]:
        """Shares for each row of the design."""
        named = [dict(zip("tsqu", row, strict=True)) for row in self.tokens.tolist()]
        return [{**names, **row} for names, row in zip(named, self._grouped(torch.eye(len(named))), strict=True)]

    def by_count(self) -> list[dict[str, Scalar]]:
        """Shares for the moves that start at each count."""
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
        decides = self.weights > 0
        pooled = (self.weights[decides, None, None] * each[decides]).sum(0) if decides.any() else each[0] * torch.nan
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
            "elsewhere": float(self.elsewhere.max()),
            "by_queries": None if self.by_queries is None else any(self.by_queries),
            "pairs": len(self.tokens),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        """A row for each block and direction."""
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
    model: CountingModel,
    *,
    layer: int | Sequence[int] | None = None,
    highest: int | None = None,
    n_pairs: int = 64,
    seed: int = 0,
) -> Transplants:
    """Measure the four transplants in every block, or in some.

    Args:
        layer: one block or several; by default all.
        highest: the largest count to use, at most L - 1; by default the largest of the training data (`known_counts`).
        n_pairs: number of rows of the design.
        seed: seed of the design and of the bootstrap.

    Raises:
        NotApplicable: where T < 4 or L < 3, or the model's activations overflow.
    """
    config = model.config
    blocks = tuple(range(config.n_layers)) if layer is None else (layer,) if isinstance(layer, int) else tuple(layer)
    for block in blocks:
        check_layer(config, block)
    refuse(needs_transplants(config))
    most = known_counts(model) if highest is None else highest
    design = transplant_design(config, highest=most, n_pairs=n_pairs, seed=seed)
    batches, last = [], config.n_layers - 1
    for rows in design.split(max(1, batch_size(config) // len(design.counts)), model.device):
        natural, worths = record_worths(model, rows)
        logits = [transplanted(model, rows, block, worths[block]) for block in blocks]
        alone = natural if config.n_layers == 1 else relayed(model, rows)
        heard = [natural[rows.ends[:, 0]] if block == last else elsewhere(model, rows, block) for block in blocks]
        batches.append([x.cpu() for x in (natural, torch.stack(logits), alone, torch.stack(heard))])
    natural, answers, alone, others = (torch.cat(same, -2) for same in zip(*batches, strict=True))
    check_finite(answers, "answers under transplants")

    def said(logits: Tensor) -> Tensor:
        return logits.argmax(-1) + config.first_count

    best = [rule.best_inventory(block, design.moves) for block in said(answers).transpose(-1, -2)]
    return Transplants(
        T=config.T,
        blocks=blocks,
        tokens=design.tokens,
        counts=design.counts,
        moves=design.moves,
        natural=said(natural).T,
        answers=torch.stack([block for block, _ in best]),
        by_queries=tuple(other for _, other in best) if shows_queries(model) else None,
        relayed=said(alone).T,
        heard=said(others).transpose(-1, -2),
        seed=seed,
    )
