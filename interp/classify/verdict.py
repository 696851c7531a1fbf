"""The verdict on one model, as a value that prints, shows itself in a notebook, and turns into JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from typing import Any

LABELS = ("RC", "IC", "mixed", "unsolved")
MEANINGS = {
    "RC": "relation-based: attention compares, the count is read from a shared direction",
    "IC": "inventory-based: the feed-forward layer compares with a memory of every token",
    "mixed": "evidence for both mechanisms",
    "unsolved": "does not count well enough to ask how",
}


@dataclass(frozen=True)
class Verdict:
    """How a model counts, and why we say so.

    Attributes:
        label: `RC`, `IC`, `mixed` or `unsolved`.
        scores: of both mechanisms, from 0 to 1, by the cue conflict: whose count does the prediction follow?
        intervals: 95 % confidence intervals of the scores, by bootstrap over token pairs.
        confidence: share of the bootstrap that comes to the same label.
        accuracy: share of positions counted rightly on fresh sequences of the paper's sampler.
        axes: `comparison` (attention, feed-forward, split or unclear), `readout` (shared direction, shared by groups,
            partly shared, inventory or unclear).
        evidence: one line for each test.
        against: what argues against the label.
        allows: what the architecture alone would allow. Context; the label does not use it.
        model: the variant and its sizes.
        measures: the numbers behind the label, by name.
    """

    label: str
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    confidence: float
    accuracy: float
    axes: dict[str, str]
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    allows: str
    model: str
    measures: dict[str, float]

    @property
    def meaning(self) -> str:
        return MEANINGS[self.label]

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "meaning": self.meaning}

    def __str__(self) -> str:
        lines = [
            f"{self.label}: {self.meaning}",
            f"  model       {self.model}",
            f"  accuracy    {self.accuracy:.2%}",
            *(f"  {name} score    {interval_text(self, name)}" for name in self.scores),
            f"  confidence  {self.confidence:.0%}",
            f"  comparison  {self.axes['comparison']}",
            f"  read-out    {self.axes['readout']}",
            *(f"  evidence    {line}" for line in self.evidence),
            *(f"  against     {line}" for line in self.against),
            f"  context     {self.allows}",
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def row(name: str, text: str) -> str:
            return f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(text)}</td></tr>"

        rows = [
            row("model", self.model),
            row("accuracy", f"{self.accuracy:.2%}"),
            *(row(f"{name} score", interval_text(self, name)) for name in self.scores),
            row("confidence", f"{self.confidence:.0%}"),
            row("comparison", self.axes["comparison"]),
            row("read-out", self.axes["readout"]),
            *(row("evidence", line) for line in self.evidence),
            *(row("against", line) for line in self.against),
            row("context", self.allows),
        ]
        caption = f"<caption><b>{escape(self.label)}</b>: {escape(self.meaning)}</caption>"
        return f"<table>{caption}{''.join(rows)}</table>"


def interval_text(verdict: Verdict, name: str) -> str:
    low, high = verdict.intervals[name]
    return f"{verdict.scores[name]:.2f} ({low:.2f} to {high:.2f})"
