"""Measures the mechanism of a Llama by transplants in windows of blocks 1..b.

The measure for deep models. A row of the design has four words: t, which is counted; s, another word; q, a bystander;
and u, which calibrates how strongly t and q respond to copies of the same word. A sequence has i0 copies of t. At each
of them, the attention output of every block of the window is *set*: to its natural value plus the effect of i1 - i0
more copies. Later blocks run normally. "Heard by x" means: recorded at a position that holds x.

    own         copies of t, heard by t          must move the answer to i1
    relation    copies of s, heard by s          suffices if the match in attention carries the count: RC
    inventory   copies of t, heard by q          suffices if no match is needed: IC
    queries     copies of t, heard by t through the queries that q would have: IC, exact at any depth
    null        copies of s, heard by q          must do nothing; it is subtracted

With a question at the end, the model listens at the positions after the list, from the word asked about onwards. There
"copies of t, heard by q" means: the question is about q, and the list holds copies of t.

`freeze` is the control: how much of the count is left when no listener compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from benchmarks.experiments.opened_llama import Opened, Past, Write
from benchmarks.experiments.pretrained import L, T
from benchmarks.experiments.teaching import Lesson, answers, encode

KINDS = ("own", "relation", "inventory", "null", "queries")
USABLE, NULL = 0.2, 0.5  # a direction is dropped if own moves less of the count, or the null does more of own
FARTHEST = 3  # |i1 - i0| at most
FAINT, LOUDEST = 0.02, 20.0  # below this share of own there is no calibration; its largest factor
ROWS = 128  # sequences at a time
REPLICATES = 400


# --- the design ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Design:
    """The sequences of the experiment.

    Attributes:
        words: the four words (t, s, q, u) of each pair.
        order: the order in which copies fill positions; the listener, at the last position, comes first.
        fillers: the words at positions without a copy.
        moves: counts (i0, i1) before and after each transplant.
    """

    words: Int[Tensor, "pair 4"]
    order: Int[Tensor, "pair pos"]
    fillers: Int[Tensor, "pair pos"]
    moves: Int[Tensor, "pair move 2"]

    def sequence(self, holds: Bool[Tensor, "*n pair pos"], copied: int) -> Int[Tensor, "*n pair pos"]:
        """Role `copied` in the slots that hold a copy, fillers in the others."""
        held = torch.where(holds, self.words[:, copied, None], self.fillers)
        return torch.empty_like(held).scatter_(-1, self.order.expand_as(held), held)

    def at(self, holds: Bool[Tensor, "*n pair pos"]) -> Bool[Tensor, "*n pair pos"]:
        """Converts a mask over slots to a mask over positions."""
        return torch.empty_like(holds).scatter_(-1, self.order.expand_as(holds), holds)


def make_design(pairs: int, moves: int, seed: int) -> Design:
    """A random design with `moves` of the possible moves (i0, i1) for each pair, half of them upwards."""
    rng = torch.Generator().manual_seed(seed)
    words = torch.stack([torch.randperm(T, generator=rng) for _ in range(pairs)])
    words[:, 0] = torch.arange(pairs) % T  # each word is counted equally often
    rest = [row[1:][row[1:] != row[0]] for row in words]
    words = torch.stack([torch.cat([row[:1], others[: T - 2]]) for row, others in zip(words, rest, strict=True)])
    order = torch.rand(pairs, L, generator=rng)
    order[:, -1] = -1.0  # only the last position sees the whole sequence
    up = [(i, j) for i in range(1, L + 1) for j in range(i + 1, min(i + FARTHEST, L) + 1)]
    chosen = []
    for _ in range(pairs):
        picks = [torch.randperm(len(up), generator=rng)[: moves // 2].tolist() for _ in range(2)]
        chosen.append([up[pick] for pick in picks[0]] + [up[pick][::-1] for pick in picks[1]])
    return Design(words[:, :4], order.argsort(1), words[:, 4 : 4 + L], torch.tensor(chosen))


# --- measuring -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Windows:
    """Answers before and after each transplant, for each window."""

    ends: tuple[int, ...]
    moves: Int[Tensor, "pair move 2"]
    before: Int[Tensor, "pair move"]
    answers: Int[Tensor, "window kind pair move"]

    def rows(self, seed: int = 0) -> Iterator[dict[str, float]]:
        """A row for each window: how far own moves the answer, and the shares with 95 % intervals over pairs."""
        pairs = len(self.before)
        drawn = torch.randint(pairs, (REPLICATES, pairs), generator=torch.Generator().manual_seed(seed))
        for end, said in zip(self.ends, self.answers, strict=True):
            value = shares(self.before, said, self.moves)
            spread = torch.stack(
                [_numbers(shares(self.before[rows], said[:, rows], self.moves[rows])) for rows in drawn]
            )
            low, high = spread.nanquantile(torch.tensor([0.025, 0.975], dtype=spread.dtype), dim=0)
            row: dict[str, float] = {"window": end, **value}
            for name, a, b in zip(("rc", "ic", "gated"), low.tolist(), high.tolist(), strict=True):
                row |= {f"{name}_low": a, f"{name}_high": b}
            yield row


def shares(
    before: Int[Tensor, "pair move"], said: Int[Tensor, "kind pair move"], moves: Int[Tensor, "pair move 2"]
) -> dict[str, float]:
    """Agreement with own, net of the null; of the usable directions, the one with less agreement counts."""
    step = moves[..., 1] - moves[..., 0]
    nets, numbers = [], dict[str, float]()
    for name, chosen in (("up", step > 0), ("down", step < 0)):
        own = said[0][chosen]
        moved = float((before[chosen] - own).abs().sum())
        missed = (said[1:, chosen] - own).abs().sum(-1).double()
        agree = 1 - missed / max(moved, 1.0)
        null = max(float(agree[2]), 0.0)
        numbers[f"moves_{name}"] = moved / float(step[chosen].abs().sum())
        numbers[f"null_{name}"] = null
        if numbers[f"moves_{name}"] >= USABLE and null <= NULL:
            nets.append(((agree[[0, 1, 3]] - null) / (1 - null)).clamp(0, 1))
    least = torch.stack(nets).amin(0) if nets else torch.full((3,), torch.nan, dtype=torch.float64)
    rc, bag, queries = least.tolist()
    ic = max(bag, queries)
    return {**numbers, "inventory": bag, "queries": queries, "rc": rc, "ic": ic, "gated": 1 - rc - ic}


def _numbers(values: dict[str, float]) -> Float[Tensor, "3"]:
    return torch.tensor([values[name] for name in ("rc", "ic", "gated")], dtype=torch.float64)


class Measure:
    """Transplants for one model and one design.

    With a question after the list, each list is run once and cached as the past of the questions about it. Then only
    the positions of the question are run.
    """

    def __init__(self, model: Any, lesson: Lesson, design: Design) -> None:
        self.net, self.lesson, self.design = Opened(model.eval()), lesson, design
        self.asked = lesson.form != "running"
        self.listening = 2 if lesson.form == "labels" else 1  # positions at the end: the word, and the space after it
        self.prefix = int(lesson.start)
        self.positions = encode(lesson, design.fillers[:1], design.words[:1, 0]).shape[1]
        self.behind = self.listening if self.asked else self.positions  # positions that are run after a past
        self.n_blocks = len(self.net.blocks)
        counts = torch.arange(1, L + 1)
        self.filled = (torch.arange(L) < counts[:, None, None]).expand(-1, len(design.words), -1)  # [count, pair, slot]
        self._queries: dict[bool, list[Tensor]] = {}  # a cache

    @torch.no_grad()
    def windows(self, ends: Sequence[int]) -> Windows:
        """Transplants in windows of blocks 1 to each of `ends`."""
        design, filled, pairs = self.design, self.filled, len(self.design.words)
        past = self.past_of_t
        natural = self.record(filled, 0, 0, past)
        heard = [natural, self.record(filled, 0, 2, past)]
        queries = self._queries_of_q(self.asked)
        heard.append(self.record(filled, 0, 0, past, queries=queries))
        for copied, listeners in ((1, (1, 2)), (3, (0, 2))):
            of_others = self.past(filled, copied)
            heard += [self.record(filled, copied, listener, of_others) for listener in listeners]
        start, end = (design.moves - 1).permute(2, 1, 0)  # [move, pair]
        row = torch.arange(pairs)

        def worth(values: Tensor) -> Tensor:  # [block, move, pair, listening, d]
            at_listener = values[..., -self.listening :, :]
            return at_listener[:, end, row] - at_listener[:, start, row]

        own, inventory, by_queries, relation, null, by_t, by_q = map(worth, heard)
        size = by_q.square().sum(-1, keepdim=True)
        audible = size > FAINT**2 * own.square().sum(-1, keepdim=True)
        ratio = (by_t * by_q).sum(-1, keepdim=True) / size.clamp_min(1e-30)
        loud = torch.where(audible, ratio, 1.0).clamp(0, LOUDEST)
        worths = [own, relation, loud * inventory, loud * null, by_queries]

        tokens = self.tokens(filled, 0, 0)[start, row].flatten(0, 1)
        at = self._listeners(filled, self.asked)[start, row].flatten(0, 1)
        recipient = natural[:, start, row].flatten(1, 2)  # [block, row, pos, d]
        of_rows = chosen(past, (start * pairs + row).flatten())
        before = self._said(self.net.run(tokens[:, -self.behind :], None, of_rows)[0]).unflatten(0, start.shape)
        said = torch.stack([self.transplant(tokens, at, recipient, w.flatten(1, 2), ends, of_rows) for w in worths], 1)
        said = said.unflatten(2, start.shape).transpose(2, 3)
        return Windows(tuple(ends), design.moves, before.T, said)

    @torch.no_grad()
    def freeze(self, ranges: Sequence[tuple[int, int]], *, question: bool = False) -> list[dict[str, float]]:
        """How much of the count is left when the listeners do not compare in blocks first..last.

        Listeners are the positions of t in the list or, with `question`, those of the question. Either their patterns
        are set to those of runs with one copy of t, or their queries to those of runs with q in their place.

        Returns:
            For each range: the share left by freezing `patterns` and by freezing `queries`.
        """
        filled = self.filled
        tokens, at = self.tokens(filled, 0, 0).flatten(0, 1), self._listeners(filled, question).flatten(0, 1)
        natural = self._said(self.net.run(tokens)[0]).unflatten(0, filled.shape[:2])
        whole = float((natural - natural[:1]).abs().sum())
        alone, queries = self._patterns_alone(), self._queries_of_q(question)
        rows = []
        for first, last in ranges:
            row: dict[str, float] = {"first": first, "last": last}
            for name in ("patterns", "queries"):
                writes = {}
                for block in range(first - 1, last):
                    if name == "patterns":
                        rows_of = alone[block].expand(L, *alone[block].shape).flatten(0, 1)
                        writes[block] = Write(at, patterns=rows_of)
                    else:
                        writes[block] = Write(at, queries=queries[block].flatten(0, 1))
                said = self._split_run(tokens, writes).unflatten(0, filled.shape[:2])
                row[name] = 1 - float((said - natural).abs().sum()) / max(whole, 1.0)
            rows.append(row)
        return rows

    # --- running -----------------------------------------------------------------------------------------------

    def tokens(
        self, holds: Bool[Tensor, "*n pair pos"], copied: int, listener: int, shift: int = 0
    ) -> Int[Tensor, "*n pair position"]:
        """Model inputs with role `copied` in the slots of `holds`, and role `listener` at the listener's position."""
        words = self.design.sequence(holds, copied)
        role = self.design.words[:, listener].expand(words.shape[:-1])
        if not self.asked:
            words = words.scatter(-1, self.design.order[:, :1].expand(*words.shape[:-1], 1), role[..., None])
        return encode(self.lesson, words.flatten(0, -2), role.flatten(), shift).unflatten(0, words.shape[:-1])

    def past(self, holds: Bool[Tensor, "count pair pos"], copied: int, shift: int = 0) -> Past | None:
        """Keys and values of the list, for each count and pair; None if there is no question after it."""
        if not self.asked:
            return None
        tokens = self.tokens(holds, copied, copied, shift).flatten(0, 1)[:, : -self.behind]
        runs = [self.net.run(rows)[1] for rows in tokens.split(ROWS)]
        return [
            (torch.cat([read.keys for read in block]), torch.cat([read.values for read in block]))
            for block in zip(*runs, strict=True)
        ]

    def _listeners(self, holds: Bool[Tensor, "*n pair pos"], question: bool) -> Bool[Tensor, "*n pair position"]:
        """The positions of t in the list, or those of the question."""
        if question:
            return (torch.arange(self.positions) >= self.positions - self.listening).expand(*holds.shape[:-1], -1)
        return torch.nn.functional.pad(self.design.at(holds), (self.prefix, self.positions - self.prefix - L))

    def _said(self, logits: Float[Tensor, "row position vocab"]) -> Int[Tensor, "row"]:
        return answers(self.lesson, logits)[:, -1].argmax(-1) + 1

    @cached_property
    def past_of_t(self) -> Past | None:
        return self.past(self.filled, 0)

    def record(
        self,
        holds: Bool[Tensor, "count pair pos"],
        copied: int,
        listener: int,
        past: Past | None,
        *,
        queries: list[Tensor] | None = None,
        shift: int = 0,
    ) -> Float[Tensor, "block count pair pos d"]:
        """Attention outputs of every block, at all positions or, after a past, at those of the question."""
        tokens = self.tokens(holds, copied, listener, shift).flatten(0, 1)[:, -self.behind :]
        at = self._listeners(holds, self.asked).flatten(0, 1)[:, -self.behind :]
        parts = []
        for rows in torch.arange(len(tokens)).split(ROWS):
            writes = {}
            if queries is not None:
                given = [q.flatten(0, 1)[rows, -self.behind :] for q in queries]
                writes = {block: Write(at[rows], queries=q) for block, q in enumerate(given)}
            _, reads = self.net.run(tokens[rows], writes, chosen(past, rows))
            parts.append(torch.stack([read.outputs for read in reads]))
        return torch.cat(parts, 1).unflatten(1, holds.shape[:2])

    def _queries_of_q(self, question: bool) -> list[Float[Tensor, "count pair position heads_d"]]:
        if question not in self._queries:
            self._queries[question] = self._record_queries(question)
        return self._queries[question]

    def _record_queries(self, question: bool) -> list[Float[Tensor, "count pair position heads_d"]]:
        """For every block and listener: its queries in a run in which its position holds q."""
        design, filled, slots = self.design, self.filled, torch.arange(L)
        width = self.net.blocks[0].self_attn.q_proj.out_features
        kept = [torch.zeros(*filled.shape[:2], self.positions, width) for _ in range(self.n_blocks)]
        if question:
            pairs = torch.arange(len(design.words))
            for number, holds in enumerate(filled):
                tokens, past = self.tokens(holds, 0, 2), chosen(self.past_of_t, number * len(pairs) + pairs)
                _, reads = self.net.run(tokens[:, -self.behind :], None, past)
                for block, read in enumerate(reads):
                    kept[block][number, :, -self.listening :] = read.queries[:, -self.listening :]
            return kept
        for slot in range(L):
            holds = filled & (slots != slot)
            words = design.sequence(holds, 0)
            where = design.order[:, slot].expand(words.shape[:-1])
            words = words.scatter(-1, where[..., None], design.words[:, 2].expand(words.shape[:-1])[..., None])
            use = filled[:, 0, slot].nonzero()[:, 0]  # counts at which the slot holds a copy
            tokens = encode(self.lesson, words[use].flatten(0, 1), design.words[:, 0].repeat(len(use)))
            position = (where[use] + self.prefix).flatten()
            for rows in torch.arange(len(tokens)).split(ROWS):
                _, reads = self.net.run(tokens[rows])
                counted, pair = use[rows // filled.shape[1]], rows % filled.shape[1]
                for block, read in enumerate(reads):
                    kept[block][counted, pair, position[rows]] = read.queries[torch.arange(len(rows)), position[rows]]
        return kept

    def _patterns_alone(self) -> list[Float[Tensor, "pair position head position"]]:
        """For every block and position: its row of the pattern in a run in which it holds the only t."""
        pairs, slots = len(self.design.words), torch.arange(L)
        heads = self.net.model.config.num_attention_heads
        kept = [torch.zeros(pairs, self.positions, heads, self.positions) for _ in range(self.n_blocks)]
        for slot in range(L):
            tokens = self.tokens((slots == slot).expand(pairs, -1), 0, 0)
            position = self.design.order[:, slot] + self.prefix
            for rows in torch.arange(pairs).split(ROWS):
                _, reads = self.net.run(tokens[rows])
                for block, read in enumerate(reads):
                    kept[block][rows, position[rows]] = read.patterns[torch.arange(len(rows)), position[rows]]
                    if self.asked and slot == 0:
                        kept[block][rows, -self.listening :] = read.patterns[:, -self.listening :]
        return kept

    def _split_run(self, tokens: Int[Tensor, "row position"], writes: Mapping[int, Write]) -> Int[Tensor, "row"]:
        parts = []
        for rows in torch.arange(len(tokens)).split(ROWS):
            of_rows = {
                block: Write(
                    write.at[rows],
                    queries=None if write.queries is None else write.queries[rows],
                    patterns=None if write.patterns is None else write.patterns[rows],
                )
                for block, write in writes.items()
            }
            parts.append(self._said(self.net.run(tokens[rows], of_rows)[0]))
        return torch.cat(parts)

    def transplant(
        self,
        tokens: Int[Tensor, "row position"],
        at: Bool[Tensor, "row position"],
        recipient: Float[Tensor, "block row pos d"],
        worth: Float[Tensor, "block row listening d"],
        ends: Sequence[int],
        past: Past | None,
    ) -> Int[Tensor, "window row"]:
        """Answers for windows that end at each of `ends`. Patched blocks run once, later blocks once per window."""
        parts = []
        for rows in torch.arange(len(tokens)).split(ROWS):
            stream, said = self.net.embed(tokens[rows, -self.behind :]), []
            listeners, before = at[rows, -self.behind :], chosen(past, rows)
            for block in range(max(ends)):
                value = recipient[block, rows] + worth[block, rows]
                stream, _ = self.net.block(block, stream, Write(listeners, outputs=value), before)
                if block + 1 in ends:
                    unpatched = stream
                    for later in range(block + 1, self.n_blocks):
                        unpatched, _ = self.net.block(later, unpatched, None, before)
                    said.append(self._said(self.net.logits(unpatched)))
            parts.append(torch.stack(said))
        return torch.cat(parts, 1)


def chosen(past: Past | None, rows: Int[Tensor, "row"]) -> Past | None:
    """The given rows of a past."""
    return None if past is None else [(keys[rows], values[rows]) for keys, values in past]
