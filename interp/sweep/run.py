"""Runs a sweep: what is asked for minus what is there, through a backend, into the store; and says how far it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from counting_interp.interp.jobs import Attempt, Backend, work_off
from counting_interp.interp.sweep.grid import SweepJob, ordered, seconds_left
from counting_interp.interp.sweep.rows import Record
from counting_interp.interp.sweep.store import CLASSIFYING, TRAINING, Store
from counting_interp.interp.sweep.worker import PROOF, VERDICT, MeasureTask, Measuring
from counting_interp.util.text import duration

Begin = Callable[[Sequence[SweepJob], Sequence[SweepJob]], None]  # the jobs that are done, and those that are left
Report = Callable[[Attempt], None]  # after each attempt, when its result is safe on disk


@dataclass(frozen=True)
class Summary:
    """Names of the jobs that were done before, were done now, failed with what error, or have lost their checkpoint."""

    before: tuple[str, ...]
    now: tuple[str, ...]
    failed: dict[str, str]
    lost: tuple[str, ...] = ()


def run_sweep(
    folder: str | Path,
    jobs: Sequence[SweepJob],
    backend: Backend,
    begin: Begin | None = None,
    report: Report | None = None,
    *,
    redo_missing: bool = False,
    classify: bool = False,
) -> Summary:
    """Do what is left of `jobs`. It may be stopped at any moment, also by kill -9, and called again.

    Args:
        redo_missing: repeat finished runs, too, whose checkpoint is gone.
        classify: the backend's runner classifies: keep a separate classification out of this folder meanwhile.
    """
    work = (TRAINING, CLASSIFYING) if classify else (TRAINING,)
    with Store(folder, *work) as store:
        store.plan(jobs)
        records = {record.job.name: record for record in store.records() if record.result is not None}
        asked = [records[job.name] for job in jobs if job.name in records]
        lost = {record.job.name for record in asked if record.checkpoint and not store.has_checkpoint(record)}
        finished = records.keys() - (lost if redo_missing else set())
        done = [job for job in jobs if job.name in finished]
        left = ordered(job for job in jobs if job.name not in finished)
        if begin is not None:
            begin(done, left)

        now, failed = work_off(backend, left, lambda attempt: store.record(attempt.task, attempt.result), report)
        gone = () if redo_missing else tuple(sorted(lost))
    return Summary(tuple(job.name for job in done), now, failed, gone)


def classify_sweep(
    folder: str | Path,
    backend: Backend,
    measuring: Measuring,
    begin: Begin | None = None,
    report: Report | None = None,
    *,
    again: bool = False,
) -> Summary:
    """Measure what is not known yet about each finished run. It may be stopped at any moment and called again, also
    while the sweep itself is still running.

    Args:
        again: forget earlier measurements first.
    """
    with Store(folder, CLASSIFYING) as store:
        if again:
            store.forget_measured(measuring.kinds)
        done, left, lost = [], [], []
        for record in store.records():
            if record.result is None:
                continue
            kinds = tuple(kind for kind in measuring.kinds if kind not in record.measured)
            if not kinds:
                done.append(record.job)
            elif not store.has_checkpoint(record):
                lost.append(record.job.name)
            else:
                left.append((record, replace(measuring, kinds=kinds)))
        if begin is not None:
            begin(done, [record.job for record, _ in left])

        tasks = (  # with the bytes of the checkpoint, so that a worker needs no access to the folder
            MeasureTask(record.job, (store.folder / str(record.checkpoint)).read_bytes(), wanted)
            for record, wanted in left
        )
        now, failed = work_off(
            backend, tasks, lambda attempt: store.record_measured(attempt.task.job, attempt.result), report
        )
    return Summary(tuple(job.name for job in done), now, failed, tuple(lost))


@dataclass(frozen=True)
class Status:
    """One model of a sweep.

    Attributes:
        cells_begun: with at least one finished run.
        seconds: of work spent, over all workers.
        seconds_left: of work for one worker, as far as it can be foreseen.
        classified, verified: finished runs with a verdict, and with a proof attempt.
        lost: finished runs whose checkpoint was kept and is gone.
    """

    model: str
    cells: int
    cells_begun: int
    runs: int
    finished: int
    seconds: float
    seconds_left: float | None
    classified: int = 0
    verified: int = 0
    lost: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_status(folder: str | Path) -> list[Status]:
    with Store(folder) as store:
        records = store.records()
        lost = {record.job.name for record in records if record.checkpoint and not store.has_checkpoint(record)}
    groups: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.job.cell.model].append(record)
    return [_status(model, group, lost) for model, group in groups.items()]


def status_lines(groups: Sequence[Status]) -> list[str]:
    """For people: one line per model and one for all; what is lost and how to continue."""
    width = max([10, *(len(group.model) for group in groups)])
    heads = f"{'model':{width}} {'runs':>12} {'cells begun':>12} {'classified':>11} {'verified':>9} {'spent':>12}"
    lines = [f"{heads} {'left, one worker':>17}"]
    total = _sum(groups)
    for group in [*groups, total]:
        runs, cells = f"{group.finished}/{group.runs}", f"{group.cells_begun}/{group.cells}"
        left = "?" if group.seconds_left is None else duration(group.seconds_left)
        known = f"{group.classified:>11} {group.verified:>9}"
        lines.append(f"{group.model:{width}} {runs:>12} {cells:>12} {known} {duration(group.seconds):>12} {left:>17}")
    if total.lost:
        lines.append(f"{total.lost} checkpoints are gone; `interp sweep run --redo-missing` makes their runs again")
    return lines


def _sum(groups: Sequence[Status]) -> Status:
    numbers = [field.name for field in fields(Status) if field.name not in ("model", "seconds_left")]
    sums = {name: sum(getattr(group, name) for group in groups) for name in numbers}
    left = [group.seconds_left for group in groups]
    known = [seconds for seconds in left if seconds is not None]
    return Status("all", seconds_left=sum(known) if len(known) == len(left) else None, **sums)


def _status(model: str, records: Sequence[Record], lost: set[str]) -> Status:
    spent = [(record.job.cell, record.result.seconds) for record in records if record.result is not None]
    left = [record.job.cell for record in records if record.result is None]
    return Status(
        model=model,
        cells=len({record.job.cell for record in records}),
        cells_begun=len({cell for cell, _ in spent}),
        runs=len(records),
        finished=len(spent),
        seconds=sum(seconds for _, seconds in spent),
        seconds_left=seconds_left(spent, left, 1) if left else 0.0,
        classified=sum(VERDICT in record.measured for record in records),
        verified=sum(PROOF in record.measured for record in records),
        lost=sum(record.job.name in lost for record in records),
    )
