"""The mechanism of a model of many blocks: transplants in windows that begin at the first block.

In a deep model one block alone may move the answer too little. So at every position of t the mixer outputs of blocks
1..b are *set* to their values without a transplant, plus a worth. Later blocks run live.

A window of all blocks reproduces own exactly, whatever the mechanism. So a long window cannot tell a look-up from a
comparison, and two short windows are read. In the first, own moves the answer by 0.2 in at least one direction. In the
second, own moves it by 0.5 on average. Where positions do not pass the count on (relay of at least 0.9) there is
no look-up, and the window of all blocks is read.

Where the model exposes its queries, inventory and null are also measured *by queries*. They are the worths of copies in
runs in which every position of t, or of s, has the queries of q, with keys and values live. Where no attention weight
depends on the query, inventory equals own and null equals relation, at any depth. The inventory with the larger share
counts.

Then the comparison is *frozen* in the blocks of the second window: every position of t gets the queries of q. If much
of the count survives, nothing was compared.

`label` is what both windows and the freezing agree on. It is not a verdict, since it does not measure what positions
without t gather. An inventory at `$` that every token reads by its address gets RC here, in all windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.probes import shares as rule
from counting_interp.probes.designs import Roles, TransplantDesign, known_counts, transplant_design
from counting_interp.probes.result import Result, Scalar, scalar
from counting_interp.probes.shares import SIDE_BY_SIDE, Shares
from counting_interp.probes.worths import (
    OWN,
    Q_TOKEN,
    RELATION,
    S_TOKEN,
    T_TOKEN,
    mixer_output,
    query,
    record_worths,
    relayed,
    run_changed,
    shows_queries,
    within,
)

FAR = 0.5  # of the count, mean of both directions: own moves the answer this far in the second window
SURVIVES = 0.5  # of the count, with the comparison frozen: at least this much means that nothing was compared


@dataclass(frozen=True, eq=False)
class DepthProfile(Result):
    """Answers under transplants in the windows 1..b.

    Attributes:
        windows: the last block of each window.
        moves: (i0, i1).
        answers: under each of `probes.shares.KINDS`, with the inventory whose share is larger.
        survived: share of the count that survives when blocks 1..b have the queries of q; NaN without queries.
        relay: share of the count that survives when no other copy has it, as in `probes.transplants`.
    """

    probe: ClassVar[str] = "depth-profile"
    windows: tuple[int, ...]
    moves: Int[Tensor, "move 2"]
    answers: Int[Tensor, "window kind pair move"]
    survived: Float[Tensor, "window"]
    relay: float
    seed: int = 0

    @cached_property
    def _replicates(self) -> Float[Tensor, "window replicate direction 4"]:
        rows = rule.bootstrap(self.answers.shape[2], self.seed)
        return torch.stack([rule.agreements(window, self.moves, rows) for window in self.answers])

    @property
    def agreements(self) -> Float[Tensor, "window direction 4"]:
        return self._replicates[:, 0]

    @property
    def read(self) -> tuple[int, ...]:
        """Indices of the two windows that are read; fewer where own never moves the answer so far.

        Where positions do not pass the count on, the last window that qualifies is read instead of the first.
        """
        own = self.agreements[..., 0]
        usable = rule.shares(self.agreements)[:, 0].isfinite()
        reached = [usable.nonzero(), (usable & (own.mean(-1) >= FAR)).nonzero()]
        side_by_side = -1 if self.relay >= SIDE_BY_SIDE else 0
        return tuple(int(index[side_by_side]) for index in reached if len(index))

    @property
    def shares(self) -> Shares:
        """Shares of the first window that is read; NaN where there is none."""
        if not self.read:
            return rule.estimated(torch.full((2, 3), torch.nan, dtype=torch.float64))
        return rule.estimated(rule.shares(self._replicates[self.read[0]]))

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the windows that are read.

        Where the count is passed on between positions, IC is tested first, since a look-up resembles a relation.
        """
        names = []
        for index in self.read:
            ic = float(rule.shares(self.agreements[index])[1])
            is_inventory = self.relay < SIDE_BY_SIDE and ic >= rule.HALF
            names.append("IC" if is_inventory else rule.label(self.agreements[index]))
        return tuple(names)

    @property
    def label(self) -> str:
        """RC, IC or gated if both windows and the freezing agree, mixed where blocks count side by side, else empty."""
        if len(self.labels) < 2 or len(set(self.labels)) > 1 or self.labels[0] not in ("RC", "IC", "gated", "mixed"):
            return ""
        if self.labels[0] == "mixed":
            return "mixed" if self.relay >= SIDE_BY_SIDE else ""
        agree = self._left >= SURVIVES if self.labels[0] == "IC" else self._left < SURVIVES
        return self.labels[0] if agree else ""

    @property
    def _left(self) -> float:
        """Share of the count that survives with the comparison frozen in the second window.

        For IC the smaller of this and the window of all blocks, since a later block may count again.
        """
        left = self.survived[self.read[1]]
        return float(left.minimum(self.survived[-1]) if self.labels[0] == "IC" else left)

    @property
    def reason(self) -> str:
        """Why there is no label; empty where there is one."""
        if self.label:
            return ""
        if len(self.read) < 2:
            return "own copies move the answer too little in every window"
        if not self.survived.isfinite().all():
            return "the model shows no queries, so that its comparison cannot be frozen"
        said, left = " and ".join(self.labels), self._left
        return f"the windows say {said}, and {left:.2f} of the count survives without comparison"

    @property
    def summary(self) -> dict[str, Scalar]:
        first, second = (*(self.windows[i] for i in self.read), None, None)[:2]
        values = {name.lower(): scalar(e["value"]) for name, e in self.shares.to_dict().items()}
        return {
            "windows_say": self.label or "nothing together",
            **values,
            "first_window": first,
            "second_window": second,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        table = []
        for index, (window, agree) in enumerate(zip(self.windows, self.agreements, strict=True)):
            kept = dict(zip(("rc", "ic", "gated"), map(scalar, rule.shares(agree)), strict=True))
            up, down = agree[:, 0].tolist()
            left = scalar(self.survived[index])
            table.append({"blocks": window + 1, "own_up": up, "own_down": down, **kept, "survived": left})
        return table


@torch.no_grad()
def depth_profile(
    model: CountingModel,
    *,
    windows: tuple[int, ...] | None = None,
    highest: int | None = None,
    n_pairs: int = 40,
    seed: int = 0,
) -> DepthProfile:
    """Transplant in the windows that end with each of `windows`; by default there is one for every block."""
    config = model.config
    windows = tuple(range(config.n_layers)) if windows is None else windows
    most = known_counts(model) if highest is None else highest
    design = transplant_design(config, highest=most, n_pairs=n_pairs, seed=seed)
    has_queries = shows_queries(model)
    batches = []
    for rows in design.split(max(1, batch_size(config) // len(design.counts)), model.device):
        natural, worths = record_worths(model, rows, forgetful=False)
        left = [torch.full_like(natural, torch.nan) for _ in windows]
        alone = relayed(model, rows)
        if has_queries:
            start, end = rows.ends.T
            queries = queries_of_bystanders(model, rows, T_TOKEN)
            askers = {OWN: queries, RELATION: queries_of_bystanders(model, rows, S_TOKEN)}
            for roles, asked in askers.items():
                _, written = asking(model, rows, asked, config.n_layers, roles)
                worths = torch.cat([worths, (worths[:, 0] + written[:, end] - written[:, start])[:, None]], 1)
            left = [asking(model, rows, queries, window + 1)[0] for window in windows]
        said = torch.stack([set_windows(model, rows, worths[: window + 1]) for window in windows])
        batches.append([x.cpu() for x in (natural, said, torch.stack([*left, alone]))])
    natural, said, remaining = (torch.cat(same, -2) for same in zip(*batches, strict=True))
    counted, kept = natural.argmax(-1), remaining.argmax(-1)
    lost = (kept - counted).abs().sum((1, 2)).double() / (counted - counted[:1]).abs().sum().clamp_min(1)
    relay, lost = 1 - float(lost[-1]), lost[:-1]
    survived = 1 - lost if has_queries else torch.full((len(windows),), torch.nan, dtype=torch.float64)
    answers = (said.argmax(-1) + config.first_count).transpose(-1, -2)
    best = torch.stack([rule.best_inventory(window, design.moves)[0] for window in answers])
    return DepthProfile(windows, design.moves, best, survived, relay, seed)


def set_windows(
    model: CountingModel, design: TransplantDesign, worths: Float[Tensor, "block kind move pair d_model"]
) -> Float[Tensor, "kind move pair class"]:
    """Logits when, at every position of t, the first blocks' mixers write their unchanged output plus a worth."""
    tokens, shape = design.sequences(OWN), worths.shape[1:-1]
    written = [list[Tensor]() for _ in worths]
    for rows in tokens:  # of one count at a time
        run_changed(model, rows, {block: outputs.append for block, outputs in enumerate(written)})
    natural = [torch.stack(outputs) for outputs in written]  # [count, pair, inner_pos, d_model]
    copies, logits = within(natural[0][0], design.copies(design.counts), model), []
    for index in torch.arange(shape.numel(), device=tokens.device).split(batch_size(model.config)):
        kind, move, pair = torch.unravel_index(index, shape)
        count = design.ends[move, 0]

        def write(
            block: int, value: Tensor, row: tuple[Tensor, ...] = (kind, move, pair), count: Tensor = count
        ) -> Tensor:
            moved = natural[block][count, row[-1]] + worths[block][row][:, None]
            return torch.where(copies[count, row[-1]], moved, value)

        said = run_changed(model, tokens[count, pair], {block: partial(write, block) for block in range(len(worths))})
        logits.append(said[torch.arange(len(index), device=index.device), design.at[pair]])
    return torch.cat(logits).unflatten(0, shape)


def queries_of_bystanders(
    model: CountingModel, design: TransplantDesign, copied: int
) -> list[Float[Tensor, "count pair head d_head"]]:
    """The queries of each block at the listener's position, when it holds q among copies of role `copied`."""
    asked = [list[Tensor]() for _ in range(model.config.n_layers)]
    for tokens in design.sequences((Q_TOKEN, copied)):
        run_changed(model, tokens, {block: queries.append for block, queries in enumerate(asked)}, query)
    row, at = torch.arange(len(design.at), device=design.at.device), model.config.prefix + design.at
    return [torch.stack([value[row, at] for value in queries]) for queries in asked]


def asking(
    model: CountingModel, design: TransplantDesign, queries: list[Tensor], n_blocks: int, roles: Roles = OWN
) -> tuple[Float[Tensor, "count pair class"], Float[Tensor, "block count pair d_model"]]:
    """Logits and mixer outputs when every position of t has the queries of q in the first `n_blocks` blocks.

    Args:
        queries: those of q, from `queries_of_bystanders`.
        roles: OWN, or RELATION for s instead of t.
    """
    at, prefix = design.at, model.config.prefix
    row = torch.arange(len(at), device=at.device)
    said, written = [], []
    positions = design.copies(design.counts)
    for count, tokens in enumerate(design.sequences(roles)):
        kept = list[Tensor]()

        def keep(value: Tensor, hook: Any, kept: list[Tensor] = kept) -> None:
            kept.append(value[row, prefix + at])

        def ask(value: Tensor, hook: Any, block: int, count: int = count) -> Tensor:
            return torch.where(within(value, positions[count], model), queries[block][count][:, None], value)

        points: list[Any] = [(query(block), partial(ask, block=block)) for block in range(n_blocks)]
        points += [(mixer_output(block), keep) for block in range(model.config.n_layers)]
        said.append(model.run_with_hooks(tokens, fwd_hooks=points)[row, at])
        written.append(torch.stack(kept))
    return torch.stack(said), torch.stack(written, 1)
