"""What the verdict's transplants do on *every* sequence, by proof.

The verdict adds worths to a few sequences. Here each worth is the same vector, measured once in the row's own run
(`probes.worths.record_worths`, without a phase). It is added at the positions of t in **every** sequence that has t at
the row's position and i0 times in all. Does the answer become i1 = i0 + 1, or i0 - 1?

A worth w moves the pre-activations by w W_in, so z becomes z + z_D w W_in: sums over the other positions as before
(`reduction`). The cells and the branch and bound of the proofs about counting decide each claim:

- **always**: i1 leads every other class, on every sequence.
- **never**: i0 leads i1, on every sequence.
- **sometimes**: a sequence with answer i1 and one without it, both found by running the model with its hooks.

By more than rounding can change, in the arithmetic of the weights: `rounding` with |w| among the terms. A step
i0 -> i1 is *sound* if the model always says i0 without a transplant, and always i1 under own. A sound step whose null
never does it is

    RC      relation always, inventory never        gated   both never
    IC      inventory always, relation never        either  both always

So the four shares of sound steps hold for any choice of the other tokens, and for any distribution over them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from counting_interp.interp.proof.branch import PROVED
from counting_interp.interp.proof.cells import CountCell, compile_kernels, extremes
from counting_interp.interp.proof.reduction import Reduction, View
from counting_interp.interp.proof.rounding import LIMIT, OWN_FACTOR, Rounding
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.applicability import needs_one_layer, needs_paper_block, refuse
from counting_interp.probes.designs import known_counts, transplant_design
from counting_interp.probes.shares import KINDS
from counting_interp.probes.worths import mixer_output, record_worths

NODES = 2_000  # of branch and bound, for each claim and challenger
ALWAYS, NEVER, SOMETIMES, OPEN = CLAIMS = ("always", "never", "sometimes", "open")
OUTCOMES = {  # of relation and inventory, where the step is sound and the null never does it
    (ALWAYS, NEVER): "RC",
    (NEVER, ALWAYS): "IC",
    (NEVER, NEVER): "gated",
    (ALWAYS, ALWAYS): "either",
}


@dataclass(frozen=True)
class Witness:
    """A sequence on which the model as run does something else than on most: `answer` at `position`, under a worth."""

    kind: str
    step: tuple[int, int]
    row: tuple[int, ...]  # t, s, q
    tokens: tuple[int, ...]
    position: int
    answer: int

    def __str__(self) -> str:
        (i0, i1), sequence = self.step, " ".join(map(str, self.tokens))
        added = "nothing" if self.kind == "before" else f"{self.kind} {i0} -> {i1} of (t, s, q) = {self.row}"
        return f"{added} added to {sequence}: position {self.position} says {self.answer}"


@dataclass(frozen=True)
class ProvedTransplants:
    """How many steps of how many rows are of one mechanism on every sequence.

    Attributes:
        rows: of the verdict's design, as many as there was time for.
        steps: i0 -> i0 + 1 and i0 -> i0 - 1 of each row.
        proved: steps by outcome: RC, IC, gated, either.
        varies: sound steps whose outcome depends on the sequence.
        unsound: the model, or the model under own, is wrong on some sequence.
        claims: of each transplant, and of `before`, how many steps are always, never, sometimes, open.
        witnesses: of each of them that varies, a sequence which is the exception.
    """

    rows: int
    steps: int
    proved: dict[str, int]
    varies: int
    unsound: int
    claims: dict[str, dict[str, int]] = field(repr=False)
    witnesses: tuple[Witness, ...] = field(default=(), repr=False)

    @property
    def open(self) -> int:
        return self.steps - sum(self.proved.values()) - self.varies - self.unsound

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "open": self.open, "witnesses": [vars(each) for each in self.witnesses]}

    @property
    def short(self) -> str:
        """`RC 286 of 288`."""
        return f"{self._found} of {self.steps:,}"

    @property
    def _found(self) -> str:
        return ", ".join(f"{name} {n:,}" for name, n in self.proved.items() if n) or "0"

    @property
    def exceptions(self) -> tuple[Witness, ...]:
        """The witness that says most: of relation or inventory, where they vary in sound steps; of own, elsewhere."""
        order = ("relation", "inventory", "null") if self.varies else ("own", "before") if self.unsound else ()
        return tuple(witness for kind in order for witness in self.witnesses if witness.kind == kind)[:1]

    def __str__(self) -> str:
        left = ((self.varies, "depend on the sequence"), (self.unsound, "are wrong under own"), (self.open, "open"))
        rest = "".join(f"; {n:,} {what}" for n, what in left if n)
        return f"on every sequence, {self.short} steps by one count ({self.rows} rows of tokens){rest}"


@torch.no_grad()
def prove_transplants(
    model: CountingTransformer, *, by_queries: bool = False, n_pairs: int = 64, seconds: float = 10.0, seed: int = 0
) -> ProvedTransplants:
    """Decide what can be decided of the verdict's rows within about `seconds`.

    Args:
        by_queries: which inventory, as in `probes.transplants`.

    Raises:
        NotApplicable: unless it is one of the paper's blocks, with one layer, T >= 4 and L >= 3.
    """
    refuse(needs_paper_block(model.config) or needs_one_layer(model.config))
    prover = TransplantProver(model, n_pairs, seed, by_queries)
    deadline, claims = time.perf_counter() + seconds, list[dict[str, str]]()
    with np.errstate(all="ignore"):  # what overflows is not proved
        for row in range(len(prover.design.tokens)):
            claims += prover.steps(row)
            if time.perf_counter() > deadline:
                break
    outcomes = Counter(_outcome(step) for step in claims)
    names = dict.fromkeys(OUTCOMES.values())
    return ProvedTransplants(
        rows=row + 1,
        steps=len(claims),
        proved={name: outcomes[name] for name in names},
        varies=outcomes["varies"],
        unsound=outcomes["unsound"],
        claims={kind: {name: sum(step[kind] == name for step in claims) for name in CLAIMS} for kind in KINDS},
        witnesses=tuple(prover.witnesses.values()),
    )


def _outcome(step: dict[str, str]) -> str:
    """Of one step, from what is claimed of each transplant."""
    before, own, relation, inventory, null = (step[kind] for kind in KINDS)
    if SOMETIMES in (before, own) or NEVER in (before, own):
        return "unsound"
    if (before, own) != (ALWAYS, ALWAYS):
        return OPEN
    if null == NEVER and (relation, inventory) in OUTCOMES:
        return OUTCOMES[relation, inventory]
    return "varies" if SOMETIMES in (relation, inventory, null) or null == ALWAYS else OPEN


class TransplantProver:
    """The claims about one model."""

    def __init__(self, model: CountingTransformer, n_pairs: int, seed: int, by_queries: bool = False) -> None:
        config, self.model = model.config, model
        design = transplant_design(config, highest=known_counts(model), n_pairs=n_pairs, seed=seed)
        self.design = replace(design, phases=0 * design.phases)
        _, worths = record_worths(model, self.design)
        kinds = [0, 1, 2, 5, 6] if by_queries else [0, 1, 2, 3, 4]
        self.worths = worths[0, kinds].detach().cpu().double().numpy()  # [kind, move, pair, d_model]
        self.reduction = Reduction(model)
        self.roundings = {Rounding(self.reduction, config.dtype): 1.0, Rounding(self.reduction, "float64"): OWN_FACTOR}
        self.witnesses: dict[str, Witness] = {}
        self.counted: dict[tuple[int, int | None, int], str] = {}
        compile_kernels()

    def steps(self, row: int) -> Iterator[dict[str, str]]:
        """What each transplant does in each step of a row."""
        token = int(self.design.tokens[row, 0])
        position = None if self.reduction.positions == (None,) else int(self.design.at[row])
        view = self.reduction.view(token, position)
        moves = [(i0, i1, m) for m, (i0, i1) in enumerate(self.design.moves.tolist()) if abs(i1 - i0) == 1]
        worths = self.worths[:, [m for *_, m in moves], row]  # [kind, step, d_model]
        alone, added = self._thresholds(view, 0 * worths), self._thresholds(view, worths)
        for index, (i0, i1, _) in enumerate(moves):
            key = (token, position, i0)
            if key not in self.counted:
                self.counted[key] = self._claim(view, i0, i0, alone[i0 - 1], worths[0, index], row, KINDS[0])
            claims = {KINDS[0]: self.counted[key]}
            for kind in range(1, len(KINDS)):
                worth = worths[kind, index]
                shifted = moved(view, worth @ self.reduction.W_in)
                claims[KINDS[kind]] = self._claim(shifted, i0, i1, added[i0 - 1], worth, row, KINDS[kind])
            yield claims

    def _thresholds(self, view: View, worths: Float[np.ndarray, "kind step d_model"]) -> Float[np.ndarray, "count"]:
        """How far a difference of logits can be off at each count, whichever of these worths is added."""
        r, counts = self.reduction, np.arange(1, self.reduction.config.L + 1)
        size, change = np.abs(worths).max((0, 1)), (worths @ r.W_in).max((0, 1))
        if not (size @ np.abs(r.W_in) @ np.abs(r.W_out) < LIMIT).all():
            return np.full(len(counts), np.inf)
        peaks = extremes(view, len(counts))[1] + np.maximum(change, 0)
        said = [np.clip(counts + step, 1, len(counts)).tolist() for step in (-1, 0, 1)]
        return sum(
            factor * np.max([rounding.margins(view, peaks, size, count) for count in said], axis=(0, 2))
            for rounding, factor in self.roundings.items()
        )

    def _claim(
        self, view: View, count: int, goal: int, off: float, worth: Float[np.ndarray, "d_model"], row: int, kind: str
    ) -> str:
        """Whether the answer is `goal` on every sequence of the cell, on none, or on some."""
        cell, wanted = CountCell(self.reduction, view, count), self.reduction.class_of(goal)
        corners = cell.corners()
        said = _answers(cell, corners)
        hits = said == wanted
        if not np.isfinite(off):
            return OPEN
        if hits.all():
            cell.right = wanted
            for challenger in cell.challengers():
                verdict, _, _, others = cell.prove(challenger, off, NODES)
                if verdict != PROVED:
                    break
            else:
                return ALWAYS
            corners, hits = np.stack([corners[0], others]), np.array([True, False])
        elif not hits.any():
            for cell.right in dict.fromkeys([self.reduction.class_of(count), *said.tolist()]):
                if cell.right != wanted:
                    verdict, _, _, others = cell.prove(wanted, off, NODES)
                    if verdict == PROVED:
                        return NEVER
            corners, hits = np.stack([corners[0], others]), np.array([False, True])
        pair = [corners[np.argmax(hits)], corners[np.argmin(hits)]]  # one that says it, one that does not
        answers = self._run([cell.sequence(others)[0] for others in pair], worth, view)
        if not (answers[0] == goal != answers[1]):
            return OPEN
        odd = int(hits.mean() > 0.5)  # the exception
        if kind not in self.witnesses:
            tokens, position = cell.sequence(pair[odd])
            names = tuple(self.design.tokens[row, :3].tolist())
            self.witnesses[kind] = Witness(kind, (count, goal), names, tuple(tokens), position, answers[odd])
        return SOMETIMES

    def _run(self, sequences: list[list[int]], worth: Float[np.ndarray, "d_model"], view: View) -> list[int]:
        """What the model as run says, with a worth added at every position of the token."""
        tokens = torch.tensor(sequences, device=self.model.device)
        prefix = self.model.config.prefix
        positions = torch.nn.functional.pad(tokens == view.token, (prefix, 0))[..., None]
        added = torch.tensor(worth, device=self.model.device)

        def add(value: torch.Tensor, hook: Any) -> torch.Tensor:
            return value + positions * added.to(value.dtype)

        logits = self.model.run_with_hooks(tokens, fwd_hooks=[(mixer_output(0), add)])
        return (logits[:, view.position or 0].argmax(-1) + self.model.config.first_count).tolist()


def _answers(cell: CountCell, others: Int[np.ndarray, "n others"]) -> Int[np.ndarray, "n"]:
    sums, r = cell.sums(others), cell.reduction
    return (np.maximum(sums[:, :-1], 0) @ r.W_out + sums[:, -1:] * r.b_out).argmax(1)


def moved(view: View, change: Float[np.ndarray, "d_mlp"]) -> View:
    """The view when `change` is added to every pre-activation."""
    shift = np.append(change, 0.0)
    base, table = (z + z[:, -1:] * shift for z in (view.base, view.table))
    return View(view.token, view.position, base, table, view.weights)
