"""The verdict on one model, and every form in which it travels: text, HTML, JSON, a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any

from counting_interp.interp.verdict import sentences
from counting_interp.models.protocol import ModelSpec
from counting_interp.probes.odds import odds
from counting_interp.probes.result import Result, html_table
from counting_interp.probes.shares import Estimate
from counting_interp.util.errors import InterpError
from counting_interp.util.text import columns, sampled, two_places

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.proof.transplants import ProvedTransplants
    from counting_interp.probes.questions import ListOrQuestion
    from counting_interp.probes.transplants import Transplants


class Mechanism(str, Enum):
    """The short name of three shares."""

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
        """One sentence that can be read aloud."""
        return sentences.MEANINGS[self.value]

    @property
    def group(self) -> str:
        """One of RC, IC, gated, mixed, unsolved: what a map has a colour for."""
        return {Mechanism.SHARPENED: "IC"}.get(self, self.value if self in _COLOURED else "mixed")


_COLOURED = (Mechanism.RC, Mechanism.IC, Mechanism.GATED, Mechanism.MIXED, Mechanism.UNSOLVED)


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """How a model counts.

    Attributes:
        mechanism: the short name of the shares.
        estimates: every number that was measured, with its interval: the shares of RC, IC and gated first, then the
            four transplants. Text, JSON, tables and pages go through this list.
        accuracy: share of positions right, on sequences of `sampler`.
        sampler: the one that the model was trained on, or counts best on.
        leans: what an unsolved model's shares would be called.
        reason: why nothing is said; empty where something is.
        accuracy_by_count: None where the sampler shows no such count.
        spec: sizes of the model; None for a verdict that was read from a table.
        transplants: the measurement itself; None for a verdict that was read from a table.
        asked: of a model that is asked at the end, the transplants in the list and at the question, apart.
        proved: what the transplants do on every sequence, where that was asked for.
        unproved: why it could not be asked for; empty otherwise.
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
        """The estimates' values by name."""
        return {estimate.name: estimate.value for estimate in self.estimates}

    @property
    def shares(self) -> tuple[Estimate, ...]:
        """Of RC, IC and gated; they sum to one."""
        return self.estimates[:3]

    @property
    def title(self) -> str:
        """The mechanism, with what an unsolved model leans to."""
        return f"{self.mechanism}, leans {self.leans}" if self.leans else str(self.mechanism)

    @property
    def results(self) -> tuple[Result, ...]:
        """What was measured, to be drawn without measuring again."""
        return () if self.transplants is None else (self.transplants,)

    @property
    def against(self) -> tuple[str, ...]:
        """What a careful reader would object."""
        return tuple(sentences.objections(self))

    @property
    def odds(self) -> tuple[int, int] | None:
        """Of how many models of known mechanism like this one (same label, similar share, as many blocks) the label is
        right, and how many there are; None where there are none."""
        if self.spec is None or self.asked is not None:
            return None
        group = {"IC, sharpened by attention": "IC"}.get(self.mechanism.value, self.mechanism.value)
        return odds(self.mechanism.value, self.spec.n_layers, self.numbers.get(group))

    # --- tables and JSON -----------------------------------------------------------------------------------------

    def to_row(self) -> dict[str, str | float | None]:
        """One flat row: mechanism, accuracy, and each estimate with the ends of its interval, in small letters."""
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
            "allows": None if self.spec is None else sentences.allows(self.spec),
            "counts_in": None if self.asked is None else self.asked.counts_in or "neither",
        }

    # --- for people ----------------------------------------------------------------------------------------------

    def plot(self) -> Figure:
        """The picture of the verdict: what each transplant does to the answer, and the shares.

        Raises:
            InterpError: for a verdict that was read from a table, which has no measurement to draw.
        """
        from counting_interp.interp.figures.verdict import verdict_figure

        if self.transplants is None:
            raise InterpError("this verdict was read from a table: classify the model again to draw it")
        figure = verdict_figure(self.transplants, self.reason if self.mechanism is Mechanism.UNSOLVED else "")
        figure.about = "" if self.spec is None else sentences.describe(self.spec)
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
        lines = [] if self.spec is None else [("model", sentences.describe(self.spec))]
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
        """Every estimate beside what RC, IC and gated would give."""
        rows = [["", "measured", "95 % interval", "RC", "IC", "gated"]]
        for estimate in self.estimates:
            interval = f"{two_places(estimate.low)} .. {two_places(estimate.high)}"
            if estimate.value != estimate.value:  # too little moves to be shared out
                continue
            expected = sentences.EXPECTED.get(estimate.name, ("", "", ""))
            name = sentences.NAMES.get(estimate.name, estimate.name)
            rows.append([name, two_places(estimate.value), interval, *expected])
        return rows


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None


def _estimate(name: str, cells: Mapping[str, Any]) -> Estimate:
    shown = name.upper() if name in ("rc", "ic") else name
    return Estimate(shown, float(cells[name]), float(cells[f"{name}_low"]), float(cells[f"{name}_high"]))
