"""The verdict on one model: measures and ruling, and the ways of showing them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from counting_interp.interp.verdict.capacity import allows
from counting_interp.interp.verdict.evidence import against, evidence
from counting_interp.interp.verdict.measure import Measures
from counting_interp.interp.verdict.rule import CASES, SLOPES, Ruling
from counting_interp.models.sizes import Sizes
from counting_interp.util.text import two_places

LABELS = ("RC", "IC", "mixed", "unsolved")
MEANINGS = {
    "RC": "relation-based",
    "IC": "inventory-based",
    "mixed": "neither mechanism alone",
    "unsolved": "does not count well enough to ask how",
}


@dataclass(frozen=True, eq=False)
class Verdict:
    """How a model counts, and why we say so. Everything shown is read from the measures and the ruling."""

    config: Sizes
    measures: Measures
    ruling: Ruling

    @property
    def label(self) -> str:
        """`RC`, `IC`, `mixed` or `unsolved`."""
        return self.ruling.label

    @property
    def case(self) -> str | None:
        """Which case of the label, by its name in `rule.CASES`; None for an unsolved model."""
        return self.ruling.case

    @property
    def leans(self) -> str | None:
        """What an unsolved model's evidence says unanimously."""
        return self.ruling.leans

    @property
    def confidence(self) -> float | None:
        return self.ruling.confidence

    @property
    def accuracy(self) -> float:
        """On the distribution that the model was trained on, or counts best on."""
        return self.measures.counting.accuracy

    @property
    def sampler(self) -> str:
        return self.measures.counting.sampler

    @property
    def numbers(self) -> dict[str, float]:
        """`kept`, `with_t`, `with_s` and `transfer`: see `rule`."""
        return {name: getattr(self.ruling.numbers, name) for name in SLOPES}

    @property
    def evidence(self) -> tuple[str, ...]:
        return evidence(self.measures, self.ruling)

    @property
    def against(self) -> tuple[str, ...]:
        return against(self.measures, self.ruling)

    @property
    def meaning(self) -> str:
        """The label in words."""
        if self.case is not None:
            return f"{MEANINGS[self.label]}: {CASES[self.case]}"
        return MEANINGS[self.label] + (f", leans {self.leans}" if self.leans else "")

    @property
    def title(self) -> str:
        """The label, with what an unsolved model leans to."""
        return f"{self.label}, leans {self.leans}" if self.leans else self.label

    def row(self) -> dict[str, str | int | float | None]:
        """One flat row for tables: label, case, accuracy, the causal numbers with their intervals, the read-out."""
        row: dict[str, str | int | float | None] = {
            "label": self.label,
            "case": self.case,
            "leans": self.leans,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "sampler": self.sampler,
        }
        for name, value in self.numbers.items():
            low, high = self.ruling.intervals[name]
            row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        return {**row, "directions": self.measures.readout.directions}

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: self.row()[name] for name in ("label", "case", "leans", "confidence", "accuracy", "sampler")},
            "meaning": self.meaning,
            "numbers": self.numbers,
            "intervals": {name: list(ends) for name, ends in self.ruling.intervals.items()},
            "slope": self.ruling.numbers.slope,
            "layer": self.ruling.layer,
            "directions": self.measures.readout.directions,
            "accuracy_by_count": self.measures.counting.by_count,
            "evidence": list(self.evidence),
            "against": list(self.against),
            "allows": allows(self.config),
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.title}: {self._words}", *(f"  {name:12}{text}" for name, text in self._lines())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._lines()
        )
        return f"<table><caption><b>{escape(self.title)}</b>: {escape(self._words)}</caption>{rows}</table>"

    @property
    def _words(self) -> str:
        return MEANINGS[self.label] if self.leans else self.meaning

    def _lines(self) -> list[tuple[str, str]]:
        """Name and text of every line: plain words first, statistics after."""
        kept, with_t, with_s, transfer = (self._number(name) for name in SLOPES)
        lines = [
            ("model", describe(self.config)),
            ("accuracy", f"{self.accuracy:.2%} of positions ({self.sampler} sampler)"),
            *(("evidence", line) for line in self.evidence),
            *(("against", line) for line in self.against),
            ("kept", f"{kept} of the count without attention's comparison"),
            ("follows", f"t by {with_t}, s by {with_s}"),
            ("transfer", transfer),
        ]
        if self.confidence is not None:
            lines.append(("confidence", f"{self.confidence:.0%}"))
        return [*lines, ("context", allows(self.config))]

    def _number(self, name: str) -> str:
        low, high = self.ruling.intervals[name]
        return f"{two_places(self.numbers[name])} ({two_places(low)} to {two_places(high)})"


def describe(config: Sizes) -> str:
    layers = "" if config.n_layers == 1 else f", {config.n_layers} layers"
    return f"{config.name}, T={config.T}, L={config.L}, d={config.d}, p={config.p}{layers}"
