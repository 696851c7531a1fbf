"""How far a sweep is and how long it will take, cell by cell, on standard error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interp.console import complain, progress_bar
from interp.sweep.grid import Cell, Job
from interp.sweep.training import Outcome

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 60.0


def cost(cell: Cell) -> float:
    """Expected time of a run in arbitrary units, from operations per step: per-vocabulary products in d, and
    per-row products in p. A rough guess, not a fit; only ratios matter."""
    vocab, rows = cell.T + 1, 100 * cell.L / 10
    vocabulary = 0 if cell.model.startswith("lin") else 6 * vocab * cell.d * (2 * cell.d + vocab)
    products = 6 * vocab * cell.d * cell.p + rows * cell.p * (6 * (cell.L + 1) + 4 * cell.L)
    return cell.epochs * cell.n_layers * (300_000 + vocabulary + products) / 1e6


def duration(seconds: float) -> str:
    """`3 h 05 min`, `12 min`, `40 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def seconds_left(spent: Sequence[tuple[Cell, float]], left: Sequence[Cell], workers: int) -> float | None:
    """What the cells `left` will take, judged by the (cell, seconds) pairs measured so far; None if there are none."""
    expected = sum(cost(cell) for cell, _ in spent)
    if not expected:
        return None
    return sum(seconds for _, seconds in spent) / expected * sum(map(cost, left)) / workers


@dataclass
class Reporter:
    """Tells of each outcome: a bar on a terminal; elsewhere a plain line now and then, and one at the end."""

    bar: Progress
    workers: int
    clock: Callable[[], float] = time.monotonic

    def begin(self, done: Sequence[Job], left: Sequence[Job]) -> None:
        self._total = len(done) + len(left)
        self._left = {job.name: job.cell for job in left}
        self._runs_left = Counter(job.cell for job in left)
        self._spent: list[tuple[Cell, float]] = []
        self._said = self.clock()
        costs = sum(cost(job.cell) for job in left)
        self._task: TaskID = self.bar.add_task(f"{len(done)} of {self._total} runs", total=costs)
        if not self.bar.disable:
            return
        complain(f"{len(done)} of {self._total} runs are done, {len(left)} left, {self.workers} at a time")

    def report(self, outcome: Outcome) -> None:
        cell = outcome.job.cell
        del self._left[outcome.job.name]
        self._runs_left[cell] -= 1
        if outcome.error is None:
            self._spent.append((cell, outcome.seconds))
        else:
            complain(f"{outcome.job.name} failed: {outcome.error}")
        line = self._line(outcome)
        self.bar.update(self._task, advance=cost(cell), description=line)
        if self.bar.disable and (self.clock() - self._said >= SECONDS_BETWEEN_LINES or not self._left):
            self._said = self.clock()
            complain(line)

    def _line(self, outcome: Outcome) -> str:
        cell = outcome.job.cell
        cell_left = [cell] * self._runs_left[cell]
        parts = [f"{self._total - len(self._left)} of {self._total} runs"]
        here = f"{cell.label} run {outcome.job.run}: " + ("failed" if outcome.error else f"{outcome.final:.2f} %")
        if cell_left and self._spent:
            here += f", {len(cell_left)} left (about {duration(seconds_left(self._spent, cell_left, 1) or 0)})"
        parts.append(here)
        remaining = seconds_left(self._spent, list(self._left.values()), self.workers)
        if remaining is not None and self._left:
            parts.append(f"all in about {duration(remaining)}")
        return " · ".join(parts)


@contextmanager
def reporting(workers: int) -> Iterator[Reporter]:
    with progress_bar() as bar:
        yield Reporter(bar, workers)
