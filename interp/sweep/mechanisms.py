"""The mechanisms of a cell: how many of its classified runs count in which way, and what the tests measured on them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from counting_interp.interp.sweep.grid import SweepCell
from counting_interp.interp.sweep.table import RunRow, group_by_cell
from counting_interp.interp.verdict.verdict import Verdict

MECHANISMS = {
    "RC": "relation-based",
    "gated": "attention compares, read token by token",
    "mixed": "mixed or undecided",
    "IC": "inventory-based",
    "unsolved": "unsolved",
}
SHARES = ("RC", "IC", "gated")


@dataclass(frozen=True)
class CellMechanisms:
    """One cell.

    Attributes:
        counts: classified runs by mechanism, all of `MECHANISMS`.
        accuracy: mean over these runs after the last epoch, in percent.
        shares: mean shares of RC, IC and gated over runs that count well enough to ask; empty where there is none.
        proved: mean share of the model's cells that are proved right on every sequence, over the verified runs.
    """

    cell: SweepCell
    counts: dict[str, int]
    accuracy: float
    shares: dict[str, float]
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
        cell = {"model": self.cell.model, "d": self.cell.d, "p": self.cell.p, "runs": self.runs}
        numbers = {f"share_{name}": self.shares.get(name) for name in SHARES} | {"proved": self.proved}
        return {**cell, "main": self.main, **self.counts, "accuracy": self.accuracy, **numbers}


def verdict_of(run: RunRow) -> Verdict | None:
    """None for a run that was not classified."""
    return Verdict.from_row(run.measured, "verdict_")


def mechanism_of(run: RunRow) -> str | None:
    """Which of `MECHANISMS`; None for a run that was not classified."""
    verdict = verdict_of(run)
    return None if verdict is None else verdict.mechanism.group


def mechanisms(runs: Iterable[RunRow]) -> list[CellMechanisms]:
    """Of each cell that has a classified run."""
    classified = group_by_cell(run for run in runs if mechanism_of(run) is not None)
    return [_cell(cell, group) for cell, group in classified.items()]


def _cell(cell: SweepCell, runs: list[RunRow]) -> CellMechanisms:
    counted = Counter(mechanism_of(run) for run in runs)
    solved = [run for run in runs if mechanism_of(run) != "unsolved"]
    shares = {name: _mean(solved, f"verdict_{name.lower()}") for name in SHARES}
    return CellMechanisms(
        cell=cell,
        counts={name: counted[name] for name in MECHANISMS},
        accuracy=statistics.fmean(run.final for run in runs),
        shares={name: share for name, share in shares.items() if share is not None},
        proved=_mean(runs, "proof_share"),
    )


def _mean(runs: list[RunRow], column: str) -> float | None:
    values = [run.measured[column] for run in runs if isinstance(run.measured.get(column), (int, float))]
    return statistics.fmean(values) if values else None
