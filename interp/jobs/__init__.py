"""Runs tasks in worker processes, on this machine (`local`) or on a cluster (`cluster`).

A task, handed to a worker, becomes an attempt: a result, or the reason why there is none. Sweeps and benchmarks share
this; neither backend knows what a task does.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from counting_interp.util.errors import InterpError


class Task(Protocol):
    """Something to do, with a name of its own; it travels to a worker, so it can be pickled."""

    @property
    def name(self) -> str: ...


Runner = Callable[[Any], Any]  # task in, result out; a function of a module, or a value that can be pickled


@dataclass(frozen=True)
class Attempt:
    """What became of a task: its result, or else an error in one line."""

    task: Any
    result: Any = None
    error: str | None = None


class Backend(Protocol):
    """Something that turns tasks into attempts, each exactly once, in any order; `LocalWorkers` and `Cluster` do.

    Attributes:
        workers: how many tasks run at a time.
    """

    @property
    def workers(self) -> int: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]: ...


def run_task(runner: Runner, task: Task) -> Attempt:
    """Do a task; whatever goes wrong in it is its outcome, and does not stop the others."""
    try:
        return Attempt(task, runner(task))
    except InterpError as error:
        return Attempt(task, error=str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Attempt(task, error=f"{type(error).__name__}: {error} ({where})")


def work_off(
    backend: Backend,
    tasks: Iterable[Task],
    keep: Callable[[Attempt], None],
    report: Callable[[Attempt], None] | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Do all tasks. Each result is kept before it is reported.

    Returns:
        The names of the tasks that were done, and the errors of those that failed, by name.
    """
    done: list[str] = []
    failed: dict[str, str] = {}
    with closing(backend.run(tasks)) as attempts:  # type: ignore[type-var]
        for attempt in attempts:
            if attempt.error is None:
                keep(attempt)
                done.append(attempt.task.name)
            else:
                failed[attempt.task.name] = attempt.error
            if report is not None:
                report(attempt)
    return tuple(done), failed
