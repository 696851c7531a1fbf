"""The verdict on one model, and its forms: text, HTML, JSON and a row of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any

from counting_interp.models.config import CountingConfig
from counting_interp.models.protocol import ModelSpec
from counting_interp.probes.result import Result, html_table
from counting_interp.probes.shares import HALF, QUARTER, Estimate, odds
from counting_interp.util.errors import InterpError
from counting_interp.util.text import columns, describe, percent, sampled, two_places

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.proof.transplants import ProvedTransplants
    from counting_interp.probes.questions import ListOrQuestion
    from counting_interp.probes.transplants import Transplants


MEANINGS = {
    "RC": "relation-based. Attention does the counting, and the MLP reads the count in the same way for every token.",
    "IC": "inventory-based. Attention only gathers, and the MLP finds the token's share by itself.",
    "gated": "attention compares, and the MLP must know the token to read the result.",
    "IC, sharpened by attention": "inventory-based, and part of each step needs attention's match.",
    "either suffices": "attention's match alone gives the count, and so does the inventory alone.",
    "both needed": "the match and the inventory are both needed to raise the count.",
    "mixed": "several mechanisms share the count.",
    "undecided": "the transplants do not agree on a mechanism.",
    "unsolved": "it does not count well enough to say how.",
}
NAMES = {
    "RC": "share of RC",
    "IC": "share of IC",
    "gated": "share that is gated",
    "own": "own: its copies, to its own position",
    "relation": "relation: another token's copies, to that token's position",
    "inventory": "inventory: its copies, to a bystander",
    "null": "null: another token's copies, to a bystander",
}
EXPECTED = {  # under RC, IC and gated
    "RC": ("1", "0", "0"),
    "IC": ("0", "1", "0"),
    "gated": ("0", "0", "1"),
    "own": ("1", "1", "1"),
    "relation": ("1", "0", "0"),
    "inventory": ("0", "1", "0"),
    "null": ("0", "0", "0"),
}
for _where, _words in (("question", "outside of the list"), ("list", "in the list")):
    NAMES[f"{_where}_moves"] = f"own, transplanted {_words}"
    EXPECTED[f"{_where}_moves"] = ("", "", "")
    for _share in ("RC", "IC", "gated"):
        NAMES[f"{_where}_{_share}"] = f"{NAMES[_share]}, {_words}"
        EXPECTED[f"{_where}_{_share}"] = EXPECTED[_share]
SHARES = ("RC", "IC", "gated")


class Mechanism(str, Enum):
    """The mechanism: a short name of the three shares, or why there is none."""

    RC = "RC"
    IC = "IC"
    GATED = "gated"
    SHARPENED = "IC, sharpened by attention"
    EITHER = "either suffices"
    BOTH = "both needed"
    MIXED = "mixed"
    UNDECIDED = "undecided"
    UNSOLVED = "unsolved"

    def __str__(self) -> str:
        return self.value

    @property
    def words(self) -> str:
        """The mechanism in a sentence."""
        return MEANINGS[self.value]

    @property
    def group(self) -> str:
        """One of RC, IC, gated, mixed, unsolved: the groups that maps have colours for."""
        return {Mechanism.SHARPENED: "IC"}.get(self, self.value if self in _COLOURED else "mixed")


_COLOURED = (Mechanism.RC, Mechanism.IC, Mechanism.GATED, Mechanism.MIXED, Mechanism.UNSOLVED)


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """How a model counts.

    Attributes:
        mechanism: the short name of the shares.
        estimates: all measured numbers with their intervals: the shares of RC, IC and gated first, then the four
            transplants. Text, JSON, tables and pages are made from this list.
        accuracy: share of correct positions, on sequences of `sampler`.
        sampler: the training sampler, or the one with the best accuracy.
        leans: for an unsolved model, the short name of its shares.
        reason: why there is no label; empty where there is one.
        accuracy_by_count: accuracy at each true count; None where the sampler draws no such count.
        spec: sizes of the model; None for a verdict read from a table.
        transplants: the measurement itself; None for a verdict read from a table.
        asked: for a model with a question at the end, the transplants at the question and in the list.
        proved: what the transplants do on every sequence, if a proof was requested.
        unproved: why a requested proof is impossible; empty otherwise.
    """

    mechanism: Mechanism
    estimates: tuple[Estimate, ...]
    accuracy: float
    sampler: str
    leans: Mechanism | None = None
    reason: str = ""
    accuracy_by_count: tuple[float | None, ...] = ()
    spec: ModelSpec | None = None
    transplants: Transplants | None = field(default=None)
    asked: ListOrQuestion | None = None
    proved: ProvedTransplants | None = None
    unproved: str = ""

    @property
    def numbers(self) -> dict[str, float]:
        """The values of the estimates by name."""
        return {estimate.name: estimate.value for estimate in self.estimates}

    @property
    def shares(self) -> tuple[Estimate, ...]:
        """The shares of RC, IC and gated, which sum to one."""
        return self.estimates[:3]

    @property
    def title(self) -> str:
        """The mechanism; for an unsolved model also what it leans to."""
        return f"{self.mechanism}, leans {self.leans}" if self.leans else str(self.mechanism)

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the probes, so that figures need no new measurement."""
        return () if self.transplants is None else (self.transplants,)

    @property
    def against(self) -> tuple[str, ...]:
        """Objections that a careful reader would raise."""
        return tuple(_objections(self))

    @property
    def odds(self) -> tuple[int, int] | None:
        """How often this label is right, among models of known mechanism with a similar share and number of blocks.

        Returns:
            (models with the right label, all models), or None where no such model was measured.
        """
        if self.spec is None or self.asked is not None:
            return None
        group = {"IC, sharpened by attention": "IC"}.get(self.mechanism.value, self.mechanism.value)
        return odds(self.mechanism.value, self.spec.n_layers, self.numbers.get(group))

    # --- tables and JSON -----------------------------------------------------------------------------------------

    def to_row(self) -> dict[str, str | float | None]:
        """One flat row: mechanism, accuracy, and each estimate with the ends of its interval, in lower case."""
        row: dict[str, str | float | None] = {
            "mechanism": self.mechanism.value,
            "leans": self.leans.value if self.leans else None,
            "accuracy": self.accuracy,
            "sampler": self.sampler,
            "reason": self.reason or None,
        }
        for estimate in self.estimates:
            name = estimate.name.lower()
            row |= {name: _finite(estimate.value), f"{name}_low": _finite(estimate.low)}
            row[f"{name}_high"] = _finite(estimate.high)
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any], prefix: str = "") -> Verdict | None:
        """The verdict that `to_row` wrote.

        Returns:
            None where the row has no verdict.
        """
        cells = {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
        name = cells.get("mechanism")
        if name not in {mechanism.value for mechanism in Mechanism}:
            return None
        leans = cells.get("leans")
        named = [key.removesuffix("_low") for key, value in cells.items() if key.endswith("_low") and value is not None]
        return cls(
            mechanism=Mechanism(name),
            estimates=tuple(_estimate(key, cells) for key in named if cells.get(key) is not None),
            accuracy=float(cells.get("accuracy") or 0.0),
            sampler=str(cells.get("sampler") or ""),
            leans=Mechanism(leans) if leans in {mechanism.value for mechanism in Mechanism} else None,
            reason=str(cells.get("reason") or ""),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `interp classify`."""
        measured = self.transplants
        return {
            "mechanism": self.mechanism.value,
            "leans": self.leans.value if self.leans else None,
            "meaning": self.mechanism.words,
            "reason": self.reason or None,
            "accuracy": self.accuracy,
            "sampler": self.sampler,
            "accuracy_by_count": list(self.accuracy_by_count),
            "estimates": [
                {
                    "name": estimate.name,
                    "value": _finite(estimate.value),
                    "low": _finite(estimate.low),
                    "high": _finite(estimate.high),
                    "meaning": estimate.meaning,
                }
                for estimate in self.estimates
            ],
            "odds": None if self.odds is None else {"right": self.odds[0], "models": self.odds[1]},
            "against": list(self.against),
            "proved": None if self.proved is None else self.proved.to_dict(),
            "unproved": self.unproved or None,
            "blocks": [] if measured is None else measured.rows(),
            "by_token": [] if measured is None else measured.by_token(),
            "by_count": [] if measured is None else measured.by_count(),
            "allows": None if self.spec is None else allows(self.spec),
            "counts_in": None if self.asked is None else self.asked.counts_in or "neither",
        }

    # --- for people ----------------------------------------------------------------------------------------------

    def plot(self) -> Figure:
        """The figure of the verdict: what each transplant does to the answer, and the shares.

        Raises:
            InterpError: for a verdict read from a table, which has no measurement to draw.
        """
        from counting_interp.interp.figures.verdict import verdict_figure

        if self.transplants is None:
            raise InterpError("this verdict was read from a table: classify the model again to draw it")
        figure = verdict_figure(self.transplants, self.reason if self.mechanism is Mechanism.UNSOLVED else "")
        figure.about = "" if self.spec is None else describe(self.spec)
        return figure

    def __repr__(self) -> str:
        shares = ", ".join(map(str, self.shares))
        return f"<{self.title}: shares {shares}; {sampled(self.accuracy)} right>"

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.mechanism.words}", *(f"  {name:10}{text}" for name, text in self._lines())]
        table = columns([tuple(row) for row in self.table()])
        return "\n".join([*lines, "", *(f"  {line}" for line in table.splitlines())])

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        caption = f"<p><b>{escape(self.title)}</b>: {escape(self.mechanism.words)}</p>"
        return caption + html_table(self._lines()) + html_table(rows, head)

    def _lines(self) -> list[tuple[str, str]]:
        lines = [] if self.spec is None else [("model", describe(self.spec))]
        what = "positions" if self.asked is None else "questions"
        lines.append(("accuracy", f"{sampled(self.accuracy)} of sampled {what} ({self.sampler} sampler)"))
        if self.asked is not None:
            lines.append(("counts in", str(self.asked)))
        if self.odds is not None:
            right, models = self.odds
            wrong = "none" if right == models else str(models - right)
            lines.append(("label", f"{wrong} of {models} models of known mechanism like this were labelled wrongly"))
        if self.reason:
            lines.append(("reason", self.reason))
        if self.unproved:
            lines.append(("proved", f"nothing: {self.unproved}"))
        if self.proved is not None:
            lines += [("proved", str(self.proved)), *(("except", str(each)) for each in self.proved.exceptions)]
        return [*lines, *(("against", line) for line in self.against)]

    def table(self) -> list[list[str]]:
        """Every estimate, next to the values that RC, IC and gated would give."""
        rows = [["", "measured", "95 % interval", "RC", "IC", "gated"]]
        for estimate in self.estimates:
            interval = f"{two_places(estimate.low)} .. {two_places(estimate.high)}"
            if estimate.value != estimate.value:  # NaN: too little moves for a share
                continue
            expected = EXPECTED.get(estimate.name, ("", "", ""))
            name = NAMES.get(estimate.name, estimate.name)
            rows.append([name, two_places(estimate.value), interval, *expected])
        return rows


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None


def _estimate(name: str, cells: Mapping[str, Any]) -> Estimate:
    shown = name.upper() if name in ("rc", "ic") else name
    return Estimate(shown, float(cells[name]), float(cells[f"{name}_low"]), float(cells[f"{name}_high"]))


def _objections(verdict: Verdict) -> Iterator[str]:
    """Objections to the verdict on a solved model."""
    if verdict.mechanism in ("unsolved", "undecided"):
        return
    if verdict.accuracy < 0.98:
        yield f"it errs at {percent(1 - verdict.accuracy)} of positions, which the mechanism does not explain"
    missing = [k for k, right in enumerate(verdict.accuracy_by_count, 1) if right is not None and right < 0.5]
    if missing:
        yield f"it is mostly wrong where a token occurs {' or '.join(map(str, missing))} times"
    for share in verdict.shares:
        if share.low < HALF < share.high:
            yield f"the interval of its share of {share.name} holds one half, where labels change"
    if (null := verdict.numbers.get("null", 0)) >= QUARTER:
        moves = f"another token's copies, heard by a bystander, move the answer {two_places(null)} as far as its own"
        yield f"{moves}; shares are net of that"
    measured = verdict.transplants
    if measured is not None and measured.by_queries is None and verdict.mechanism == "gated":
        yield "its queries are hidden, so an inventory in which a position prefers itself could pass for gated"
    if measured is not None and len(measured.blocks) > 1 and measured.relay < 0.9:
        others = [b + 1 for b, w in zip(measured.blocks, measured.weights.tolist(), strict=True) if w == 0]
        kept, named = two_places(measured.relay), ", ".join(map(str, others))
        yield f"blocks hand the count on ({kept} of it without that); nothing is proved of block {named}"


def allows(spec: ModelSpec) -> str:
    """Which mechanisms the paper's arguments allow at these sizes. It is context only: no label depends on it."""
    if spec.n_layers > 1:
        return f"{spec.n_layers} layers: the paper's capacity arguments are for one, so nothing is ruled out"
    if not isinstance(spec, CountingConfig) or not spec.is_paper_block:
        beyond = spec.beyond_paper if isinstance(spec, CountingConfig) else ", ".join(spec.extras)
        return f"with {beyond} the paper's capacity arguments do not hold: nothing is ruled out"
    if spec.mixing == "lin":
        return "a constant mixing matrix cannot compare tokens: only IC is possible"
    if spec.name == "dot+sftm":
        return "attention shares sum to one, so no direction common to all tokens can carry the count: not RC"
    if spec.p == 1:
        return "one hidden unit cannot tell tokens apart: only RC"
    if spec.p < spec.T:
        return f"p = {spec.p} < T = {spec.T} hidden units cannot hold an inventory of all tokens: not IC alone"
    return f"attention can compare and p = {spec.p} >= T = {spec.T} units can hold an inventory: RC and IC"
