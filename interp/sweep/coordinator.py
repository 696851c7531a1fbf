"""Planned runs minus finished ones, through a backend, into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interp.sweep.grid import Job, ordered
from interp.sweep.store import Store
from interp.sweep.training import Outcome


class Backend(Protocol):
    """Something that turns jobs into outcomes, each exactly once, in any order; `LocalWorkers` and `Cluster` do.

    Attributes:
        workers: how many jobs run at a time.
    """

    @property
    def workers(self) -> int: ...

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]: ...


@dataclass(frozen=True)
class Summary:
    """Names of the jobs that were finished before, were finished now, and failed with what error."""

    before: tuple[str, ...]
    now: tuple[str, ...]
    failed: dict[str, str]


def run_sweep(
    folder: str | Path,
    jobs: Sequence[Job],
    backend: Backend,
    begin: Callable[[Sequence[Job], Sequence[Job]], None] | None = None,
    report: Callable[[Outcome], None] | None = None,
) -> Summary:
    """Do what is left of `jobs`. It may be stopped at any moment, also by kill -9, and called again.

    Args:
        begin: called once with the jobs that are done and those that are left.
        report: called after each outcome, when it is safe on disk.
    """
    now: list[str] = []
    failed: dict[str, str] = {}
    with Store(folder, write=True) as store:
        store.plan(jobs)
        finished = store.finished()
        done = [job for job in jobs if job.name in finished]
        left = ordered(job for job in jobs if job.name not in finished)
        if begin is not None:
            begin(done, left)
        with closing(backend.run(left)) as outcomes:  # type: ignore[type-var]
            for outcome in outcomes:
                if outcome.error is None:
                    store.record(outcome)
                    now.append(outcome.job.name)
                else:
                    failed[outcome.job.name] = outcome.error
                if report is not None:
                    report(outcome)
    return Summary(tuple(job.name for job in done), tuple(now), failed)
