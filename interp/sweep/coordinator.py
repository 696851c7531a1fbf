"""What is asked for minus what is there, through a backend, into the store: for training, and for classifying."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from counting_interp.interp.jobs.attempt import Attempt, Task
from counting_interp.interp.sweep.database import CLASSIFYING, TRAINING
from counting_interp.interp.sweep.grid import SweepJob, ordered
from counting_interp.interp.sweep.integrity import Record
from counting_interp.interp.sweep.measure_run import MeasureTask, Measuring
from counting_interp.interp.sweep.store import Store


class Backend(Protocol):
    """Something that turns tasks into attempts, each exactly once, in any order; `LocalWorkers` and `Cluster` do.

    Attributes:
        workers: how many tasks run at a time.
    """

    @property
    def workers(self) -> int: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]: ...


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
    repair: bool = False,
    classify: bool = False,
) -> Summary:
    """Do what is left of `jobs`. It may be stopped at any moment, also by kill -9, and called again.

    Args:
        repair: repeat finished runs, too, whose checkpoint is gone.
        classify: the backend's runner classifies: keep a separate classification out of this folder meanwhile.
    """
    work = (TRAINING, CLASSIFYING) if classify else (TRAINING,)
    with Store(folder, *work) as store:
        store.plan(jobs)
        names = {job.name for job in jobs}
        lost = store.lost() & names
        finished = store.finished() - (lost if repair else set())
        done = [job for job in jobs if job.name in finished]
        left = ordered(job for job in jobs if job.name not in finished)
        if begin is not None:
            begin(done, left)

        def keep(attempt: Attempt) -> None:
            store.record(attempt.task, attempt.result)

        now, failed = _work_off(backend, left, keep, report)
        gone = () if repair else tuple(sorted(lost))
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
    """Find out what is not known yet about each finished run. It may be stopped at any moment and called again, also
    while the sweep itself is still running.

    Args:
        again: forget first what was found out before.
    """
    with Store(folder, CLASSIFYING) as store:
        if again:
            store.forget_measured(measuring.kinds)
        known = {kind: store.measured(kind) for kind in measuring.kinds}
        done, left, lost = [], [], []
        for record in store.records():
            if record.result is None:
                continue
            kinds = tuple(kind for kind in measuring.kinds if record.job.name not in known[kind])
            if not kinds:
                done.append(record.job)
            elif not record.checkpoint or not (store.folder / record.checkpoint).is_file():
                lost.append(record.job.name)
            else:
                left.append((record, replace(measuring, kinds=kinds)))
        if begin is not None:
            begin(done, [record.job for record, _ in left])

        def keep(attempt: Attempt) -> None:
            store.record_measured(attempt.task.job, attempt.result)

        tasks = (_task(store.folder, record, wanted) for record, wanted in left)
        now, failed = _work_off(backend, tasks, keep, report)
    return Summary(tuple(job.name for job in done), now, failed, tuple(lost))


def _work_off(
    backend: Backend, tasks: Iterable[Task], keep: Callable[[Attempt], None], report: Report | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of what was done, and what failed."""
    now: list[str] = []
    failed: dict[str, str] = {}
    with closing(backend.run(tasks)) as attempts:  # type: ignore[type-var]
        for attempt in attempts:
            if attempt.error is None:
                keep(attempt)
                now.append(attempt.task.name)
            else:
                failed[attempt.task.name] = attempt.error
            if report is not None:
                report(attempt)
    return tuple(now), failed


def _task(folder: Path, record: Record, measuring: Measuring) -> MeasureTask:
    """With the bytes of the checkpoint, so that a worker needs no access to the folder."""
    assert record.checkpoint is not None
    return MeasureTask(record.job, (folder / record.checkpoint).read_bytes(), measuring)
