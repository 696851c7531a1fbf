"""How far a sweep is and how long it will take, cell by cell, on standard error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from counting_interp.interp.cli import console
from counting_interp.interp.cli.console import warn
from counting_interp.interp.jobs import Attempt
from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.run import cost, seconds_left
from counting_interp.interp.sweep.worker import Measurement, TrainedRun
from counting_interp.util.errors import printable
from counting_interp.util.text import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 60.0


Said = tuple[str, float]  # what is said of a result, and the seconds that it took


def trained(run: TrainedRun) -> Said:
    return f"{run.final:.2f} %" + (f", not classified ({run.complaint})" if run.complaint else ""), run.seconds


def measured(measurements: Mapping[str, Measurement]) -> Said:
    words = [
        str(value) for measurement in measurements.values() for value in islice(measurement.row.values(), 1)
    ]  # the label; the outcome
    return ", ".join(words), sum(measurement.seconds for measurement in measurements.values())


@dataclass
class Reporter:
    """Reports each attempt: a bar on a terminal; elsewhere a plain line now and then, and one at the end.

    Attributes:
        words: for a result.
        cost: of a cell, in any unit.
    """

    bar: Progress
    workers: int
    words: Callable[[Any], Said] = trained
    cost: Callable[[SweepCell], float] = cost
    clock: Callable[[], float] = time.monotonic

    def begin(self, done: Sequence[SweepJob], left: Sequence[SweepJob]) -> None:
        self._total = len(done) + len(left)
        self._left = {job.name: job.cell for job in left}
        self._runs_left = Counter(job.cell for job in left)
        self._spent: list[tuple[SweepCell, float]] = []
        self._said = self.clock()
        costs = sum(self.cost(job.cell) for job in left)
        self._task: TaskID = self.bar.add_task(f"{len(done)} of {self._total} runs", total=costs)
        if self.bar.disable and not console.quiet:
            warn(f"{len(done)} of {self._total} runs are done, {len(left)} left, {self.workers} at a time")

    def report(self, attempt: Attempt) -> None:
        job: SweepJob = attempt.task.job
        del self._left[job.name]
        self._runs_left[job.cell] -= 1
        words = "failed"
        if attempt.error is None:
            words, seconds = self.words(attempt.result)
            self._spent.append((job.cell, seconds))
        else:
            warn(f"{job.name} failed: {printable(attempt.error, 500)}")
        line = self._line(job, words)
        self.bar.update(self._task, advance=self.cost(job.cell), description=line)
        silent = console.quiet or not self.bar.disable
        if not silent and (self.clock() - self._said >= SECONDS_BETWEEN_LINES or not self._left):
            self._said = self.clock()
            warn(line)

    def _line(self, job: SweepJob, words: str) -> str:
        cell_left = [job.cell] * self._runs_left[job.cell]
        parts = [f"{self._total - len(self._left)} of {self._total} runs"]
        here = f"{job.cell.label} run {job.run}: {words}"
        if cell_left and self._spent:
            here += f", {len(cell_left)} left (about {duration(self._seconds(cell_left, 1) or 0)})"
        parts.append(here)
        remaining = self._seconds(list(self._left.values()), self.workers)
        if remaining is not None and self._left:
            parts.append(f"all in about {duration(remaining)}")
        return " · ".join(parts)

    def _seconds(self, left: Sequence[SweepCell], workers: int) -> float | None:
        return seconds_left(self._spent, left, workers, self.cost)
