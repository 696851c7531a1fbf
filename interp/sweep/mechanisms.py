"""The mechanisms of a cell: how many of its classified runs count in which way, and what the tests measured on them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from counting_interp.interp.sweep.grid import SweepCell
from counting_interp.interp.sweep.table import RunRow, group_by_cell

MECHANISMS = {
    "RC": "relation-based",
    "gated": "attention compares, read token by token",
    "mixed": "mixed",
    "IC": "inventory-based",
    "unsolved": "unsolved",
}


@dataclass(frozen=True)
class CellMechanisms:
    """One cell.

    Attributes:
        counts: classified runs by mechanism, all of `MECHANISMS`.
        accuracy: mean over these runs after the last epoch, in percent.
        kept: mean share of the count that is left when attention cannot compare; follows: mean slope with the count of
            t when attention compared for t and the self path says s. Both over runs that count well enough to ask.
        proved: mean share of the model's cells that are proved right on every sequence, over the verified runs.
    """

    cell: SweepCell
    counts: dict[str, int]
    accuracy: float
    kept: float | None
    follows: float | None
    proved: float | None

    @property
    def runs(self) -> int:
        return sum(self.counts.values())

    @property
    def main(self) -> str:
        """The most frequent mechanism; of equally frequent ones the first of `MECHANISMS`."""
        return max(MECHANISMS, key=lambda name: self.counts[name])

    @property
    def share(self) -> float:
        """Of the runs that count by the main mechanism."""
        return self.counts[self.main] / self.runs

    def to_dict(self) -> dict[str, Any]:
        place = {"model": self.cell.model, "d": self.cell.d, "p": self.cell.p, "runs": self.runs}
        numbers = {"kept": self.kept, "follows": self.follows, "proved": self.proved}
        return {**place, "main": self.main, **self.counts, "accuracy": self.accuracy, **numbers}


def mechanism_of(run: RunRow) -> str | None:
    """Which of `MECHANISMS`; None for a run that was not classified."""
    label = run.measured.get("verdict_label")
    if label == "mixed" and run.measured.get("verdict_case") == "gated":
        return "gated"
    return label if label in MECHANISMS and label != "gated" else None  # gated is a case, never a label


def mechanisms(runs: Iterable[RunRow]) -> list[CellMechanisms]:
    """Of each cell that has a classified run."""
    classified = group_by_cell(run for run in runs if mechanism_of(run) is not None)
    return [_cell(cell, group) for cell, group in classified.items()]


def _cell(cell: SweepCell, runs: list[RunRow]) -> CellMechanisms:
    found = Counter(mechanism_of(run) for run in runs)
    solved = [run for run in runs if mechanism_of(run) != "unsolved"]
    return CellMechanisms(
        cell=cell,
        counts={name: found[name] for name in MECHANISMS},
        accuracy=statistics.fmean(run.final for run in runs),
        kept=_mean(solved, "verdict_kept"),
        follows=_mean(solved, "verdict_with_t"),
        proved=_mean(runs, "proof_share"),
    )


def _mean(runs: list[RunRow], column: str) -> float | None:
    values = [run.measured[column] for run in runs if isinstance(run.measured.get(column), (int, float))]
    return statistics.fmean(values) if values else None
