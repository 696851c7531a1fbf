"""What a sweep says of each cell: accuracy over its runs, mechanisms of its runs, frontiers over all cells."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from counting_interp.interp.sweep.grid import Setting, SweepCell
from counting_interp.interp.sweep.table import RunRow
from counting_interp.interp.verdict.verdict import Verdict

SOLVED = 99.0  # percent: what the paper's dots stand for
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class CellStatistics:
    """What the paper plots of a cell.

    Attributes:
        runs: finished ones.
        mean, std: of the accuracy after the last epoch; the sample standard deviation (n - 1), None for one run.
        best: of any run at any epoch.
        solved: share of runs that end at 99 % or above.
    """

    cell: SweepCell
    parameters: int
    runs: int
    mean: float
    std: float | None
    best: float
    solved: float


def by_cell(runs: Sequence[RunRow]) -> list[CellStatistics]:
    """Statistics of each cell, in order of first appearance."""
    return [_statistics(cell, group) for cell, group in group_by_cell(runs).items()]


def group_by_cell(runs: Iterable[RunRow]) -> dict[SweepCell, list[RunRow]]:
    return _grouped(runs, lambda run: run.cell)


def by_setting(cells: Iterable[CellStatistics]) -> dict[Setting, list[CellStatistics]]:
    return _grouped(cells, lambda cell: cell.cell.setting)


def _grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _statistics(cell: SweepCell, runs: list[RunRow]) -> CellStatistics:
    finals = [run.final for run in runs]
    return CellStatistics(
        cell=cell,
        parameters=runs[0].parameters,
        runs=len(runs),
        mean=statistics.fmean(finals),
        std=statistics.stdev(finals) if len(finals) > 1 else None,
        best=max(run.best for run in runs),
        solved=sum(final >= SOLVED for final in finals) / len(finals),
    )


@dataclass(frozen=True)
class Pair:
    """Two settings that differ in one thing, first minus second.

    Attributes:
        name: for file names.
        title: for people.
        range: of the colour scale, in points; the published differences stay within it.
    """

    name: str
    title: str
    range: float
    first: Setting
    second: Setting


def pairs(settings: Sequence[Setting]) -> list[Pair]:
    """The comparisons of the paper's appendix that can be made of these settings."""
    comparisons = []
    for first in settings:
        random, deeper = first.changed(frozen=True), first.changed(n_layers=2)
        if not first["frozen"] and random in settings:
            comparisons.append(Pair("learned_minus_random", "learned minus random embeddings", 60, first, random))
        if first["n_layers"] == 1 and not first["frozen"] and deeper in settings:
            comparisons.append(Pair("one_minus_two_layers", "one minus two layers", 25, first, deeper))
    return comparisons


MECHANISMS = ("RC", "gated", "mixed", "IC", "unsolved")
SHARES = ("RC", "IC", "gated")


@dataclass(frozen=True)
class CellMechanisms:
    """One cell.

    Attributes:
        counts: classified runs by mechanism, all of `MECHANISMS`.
        accuracy: mean over these runs after the last epoch, in percent.
        shares: mean shares of RC, IC and gated over runs that count well enough to ask; empty where there is none.
        proved: mean share of the model's cells that are proved right, over the runs with a proof attempt.
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


Point = tuple[int, float]


def running_best(points: Iterable[Point]) -> list[Point]:
    """The best accuracy with at most so many parameters: the points where it rises, and the largest size. This is what
    the published figure draws, under the name of a convex hull."""
    best: list[Point] = []
    size = None
    for size, accuracy in sorted(points):
        if not best or accuracy > best[-1][1]:
            best = [point for point in best if point[0] < size]
            best.append((size, accuracy))
    if size is not None and best[-1][0] != size:
        best.append((size, best[-1][1]))
    return best


def upper_hull(points: Iterable[Point]) -> list[Point]:
    """The upper convex hull where sizes are logarithmic, as on the figure's axis, up to the highest point."""
    hull: list[Point] = []
    for point in sorted(set(points)):
        while hull and hull[-1][0] == point[0]:
            hull.pop()  # of equal sizes, sorted by accuracy, the last is the highest
        while len(hull) > 1 and _slope(hull[-2], point) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    top = max((accuracy for _, accuracy in hull), default=0.0)
    highest = next((index for index, point in enumerate(hull) if point[1] == top), -1)
    return hull[: highest + 1]


def _slope(a: Point, b: Point) -> float:
    return (b[1] - a[1]) / (math.log(b[0]) - math.log(a[0]))
