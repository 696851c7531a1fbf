"""What is asked about a model, and the three answers: certified, refuted with a sequence, or undecided."""

from __future__ import annotations

import dataclasses
import html
from dataclasses import dataclass
from typing import Any, ClassVar

from counting_interp.models.task import in_words, letter, named
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.text import percent


def saw_every_count(model: CountingTransformer) -> bool:
    """Whether training may have shown the model every count from 1 to L.

    The published sampler never shows a token L times. A repair shows every count.
    """
    task = model.metadata.get("task")
    published = isinstance(task, dict) and task.get("sampler") == "published"
    return not published or "repair" in model.metadata


def claimed_counts(model: CountingTransformer, max_count: int | None = None) -> int:
    """The largest count that a proof speaks of: what is asked for, or L, or L - 1 where training never showed L.

    Raises:
        ValueError: if `max_count` is not between 1 and L.
    """
    L = model.config.L
    if max_count is not None and not 1 <= max_count <= L:
        raise ValueError(f"max_count must be between 1 and L={L}, got {max_count}")
    return max_count or (L if saw_every_count(model) else L - 1)


@dataclass(frozen=True)
class CountMargin:
    """What is known about all positions whose token occurs `count` times.

    Attributes:
        margin: the smallest margin found (logit of the true count minus the highest other logit).
        proved: a lower bound on the margin that holds on every sequence; equal to `margin` up to rounding where the
            method is exact.
        low, high: the exact interval of the deciding quantity, where there is a single one.
    """

    count: int
    margin: float
    proved: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class UnprovedCell:
    """A cell that was not proved: `token` occurs `count` times, for `lin` also at `position`.

    Attributes:
        margin: the smallest margin found; infinite where nothing was looked at.
        sequences: up to a few, with the smallest margins found, lowest first; wrong ones where `wrong` says so.
    """

    token: int
    count: int
    position: int | None
    margin: float
    sequences: tuple[tuple[int, ...], ...]

    @property
    def wrong(self) -> bool:
        return self.margin <= 0


@dataclass(frozen=True)
class ProvedCell:
    """A cell that was proved right: wherever `token` occurs `count` times, for `lin` at `position`.

    Attributes:
        margin: the smallest margin found; proved: a lower bound on it that holds on every sequence.
        rounding: what floating point of this precision, and the proof's own, may lose of it; smaller than `proved`.
        method: how it was proved.
    """

    token: int
    count: int
    position: int | None
    margin: float
    proved: float
    rounding: float
    precision: str
    method: str

    @property
    def slack(self) -> float:
        """By how much the proved margin exceeds rounding."""
        return self.proved - self.rounding

    @property
    def where(self) -> str:
        return f"token {named(self.token)}, count {self.count}" + (
            "" if self.position is None else f", position {self.position}"
        )


@dataclass(frozen=True, repr=False)
class ProofOutcome:
    """What all three verdicts share.

    Attributes:
        model: variant and sizes.
        counts: the largest count asked about; positions with larger counts were left aside.
        cells: number of (token, count) cells, for `lin` (position, token, count); proved_cells: those proved right.
        methods: how many cells each method proved.
        seconds: time spent.
        unproved: every cell that was not proved right, with its most dangerous sequences; proofs: every cell that was
            (neither is part of `to_dict`: there may be thousands).
    """

    verdict: ClassVar[str]
    model: str
    counts: int
    cells: int
    proved_cells: int
    methods: dict[str, int]
    seconds: float
    unproved: tuple[UnprovedCell, ...]
    proofs: tuple[ProvedCell, ...]

    @property
    def share(self) -> float:
        return self.proved_cells / self.cells

    @property
    def proved_in_words(self) -> str:
        how = ", ".join(f"{n} by {method}" for method, n in self.methods.items())
        return f"{self.proved_cells} of {self.cells} cells proved right" + (f" ({how})" if how else "")

    def lines(self) -> list[str]:
        """What `interp prove` prints between the verdict and the time, line by line."""
        raise NotImplementedError

    def cell_list(self) -> list[dict[str, Any]]:
        """Every cell with what is known about it, proved ones first."""
        unproved = [{**dataclasses.asdict(cell), "wrong": cell.wrong} for cell in self.unproved]
        return [_with_slack(cell) for cell in self.proofs] + unproved

    def to_dict(self) -> dict[str, Any]:
        facts = dataclasses.asdict(dataclasses.replace(self, unproved=(), proofs=()))
        del facts["unproved"], facts["proofs"]
        return {"verdict": self.verdict, **facts, "share": self.share}

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{html.escape(self.model)}</b><br>{html.escape(str(self))}</p>"


@dataclass(frozen=True, repr=False)
class Certificate(ProofOutcome):
    """A proof that the model is right on every sequence.

    Attributes:
        claim: what is proved, in words.
        identity: why finitely many values decide about all T^L sequences.
        quantity: what the intervals in `margins` are intervals of, where one quantity decides.
        margins: one entry per count.
        precision: the coarsest arithmetic for which the proof holds: `float32`, or `float64` where a margin is smaller
            than what float32 may lose.
        rounding: the largest bound on rounding errors of a logit difference at that precision, in whichever cell;
            cells with large logits have both, large errors and large margins.
        closest: a sequence on which the smallest margin found is attained.
    """

    verdict: ClassVar[str] = "certified"
    claim: str
    identity: str
    quantity: str | None
    margins: tuple[CountMargin, ...]
    precision: str
    rounding: float
    closest: tuple[int, ...]

    @property
    def margin(self) -> float:
        """The smallest margin found."""
        return min(entry.margin for entry in self.margins)

    @property
    def proved_margin(self) -> float:
        return min(entry.proved for entry in self.margins)

    @property
    def tightest(self) -> ProvedCell:
        """The cell in which the proved margin exceeds rounding by least, in proportion."""
        return min(self.proofs, key=lambda cell: cell.proved / max(cell.rounding, 1e-300))

    def to_dict(self) -> dict[str, Any]:
        margins = {"margin": self.margin, "proved_margin": self.proved_margin}
        return {**super().to_dict(), **margins, "tightest": _with_slack(self.tightest)}

    def lines(self) -> list[str]:
        tight = self.tightest
        lines = [
            f"claim     {self.claim}",
            f"margin    {self.margin:.6g} on {in_words(self.closest)}, the lowest found",
            f"          proved to exceed {self.proved_margin:.6g} everywhere, and rounding in every cell",
            f"tightest  {tight.where}: margin above {tight.proved:.6g}, rounding below {tight.rounding:.2g}, "
            f"slack {tight.slack:.6g}",
            f"proof     {self.proved_in_words}; {self.identity}",
        ]
        if self.quantity is not None:
            lines.append(f"decided by the {self.quantity}:")
        for entry in self.margins:
            where = "" if entry.low is None or entry.high is None else f"  in [{entry.low:.6g}, {entry.high:.6g}]"
            lines.append(f"  count {entry.count:>3}  margin {entry.margin:.6g}{where}")
        return lines

    def __str__(self) -> str:
        cell = self.tightest
        return (
            f"certified in {self.precision}, counts 1..{self.counts}: right on every sequence; in the tightest cell "
            f"({cell.where}) the margin exceeds {cell.proved:.4g} and rounding is below {cell.rounding:.2g}"
        )


@dataclass(frozen=True, repr=False)
class Counterexample(ProofOutcome):
    """A sequence on which the model, when run, is wrong: of those found, the one with the most negative margin.

    Attributes:
        sequence, true_counts, answers: tokens, truth and the model's output at every position.
        position: where the margin is taken.
        margin: logit of the true count there minus the highest other logit; negative.
        wrong_cells: cells in which a wrong sequence was found; wrong_counts: the counts of these cells.
    """

    verdict: ClassVar[str] = "refuted"
    sequence: tuple[int, ...]
    true_counts: tuple[int, ...]
    answers: tuple[int, ...]
    position: int
    margin: float
    wrong_cells: int
    wrong_counts: tuple[int, ...]

    @property
    def token(self) -> int:
        return self.sequence[self.position]

    @property
    def count(self) -> int:
        return self.true_counts[self.position]

    @property
    def answer(self) -> int:
        return self.answers[self.position]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "token": self.token, "count": self.count, "answer": self.answer}

    def lines(self) -> list[str]:
        written = tuple(letter(token, -1) for token in self.sequence)
        width = max(len(str(value)) for value in (*written, *self.true_counts, *self.answers))
        rows: dict[str, tuple[Any, ...]] = {"sequence": written, "true": self.true_counts, "model": self.answers}
        counts = ", ".join(map(str, self.wrong_counts))
        return [
            f"tokens    {in_words(self.sequence)}",
            *(f"{name:<9} {' '.join(f'{value:>{width}}' for value in values)}" for name, values in rows.items()),
            f"margin    {self.margin:.4g} for token {named(self.token)} at position {self.position}, the lowest found",
            f"wrong     in {self.wrong_cells} of {self.cells} cells, counts {counts}; {self.proved_in_words}",
        ]

    def __str__(self) -> str:
        return (
            f"refuted on {in_words(self.sequence)}: the model counts {named(self.token)} as {self.answer}, "
            f"not {self.count} (margin {self.margin:.4g})"
        )


@dataclass(frozen=True, repr=False)
class Undecided(ProofOutcome):
    """Neither a proof nor a wrong sequence was found.

    Attributes:
        margin: the smallest margin found, on the sequence `closest` (both None if nothing was looked at).
        reason: what stood in the way.
    """

    verdict: ClassVar[str] = "undecided"
    margin: float | None
    closest: tuple[int, ...] | None
    reason: str

    def lines(self) -> list[str]:
        margin = "none" if self.margin is None else f"{self.margin:.4g} on {in_words(self.closest or ())}"
        return [
            f"because   {self.reason}",
            f"margin    smallest found: {margin}",
            f"proved    {self.proved_in_words}",
        ]

    def __str__(self) -> str:
        found = "no sequence tried" if self.margin is None else f"smallest margin found {self.margin:.4g}"
        return f"undecided: {percent(self.share)} of {self.cells} cells proved, {found}; {self.reason}"


Outcome = Certificate | Counterexample | Undecided


def _with_slack(cell: ProvedCell) -> dict[str, Any]:
    return {**dataclasses.asdict(cell), "slack": cell.slack}
