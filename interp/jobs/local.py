"""Worker processes on this machine. A worker that dies takes no result with it: its task goes to a fresh one."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from counting_interp.interp.jobs import Attempt, Runner, Task, run_task

MAX_ATTEMPTS = 3
# One thread for each library: a run's bits and speed must not depend on what runs beside it.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task


class _Queue:
    """Tasks as they are needed (they may carry files), those of dead workers first."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks, self._again = iter(tasks), deque[Task]()

    def next(self) -> Task | None:
        return self._again.popleft() if self._again else next(self._tasks, None)

    def put_back(self, task: Task) -> None:
        self._again.append(task)


class LocalWorkers:
    """`workers` processes, one task at a time each, one thread each."""

    def __init__(self, workers: int, runner: Runner) -> None:
        if workers < 1:
            raise ValueError(f"a sweep needs at least one worker, got {workers}")
        self.workers = workers
        self._runner = runner
        self._context = get_context("spawn")

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]:
        """Attempts as they end. Closing the generator, or an interruption, ends the workers."""
        waiting = _Queue(tasks)
        deaths: Counter[str] = Counter()
        busy: dict[Connection, _Worker] = {}
        try:
            while len(busy) < self.workers and (task := waiting.next()) is not None:
                self._start(task, busy)
            while busy:
                for connection in cast("list[Connection]", wait(list(busy))):
                    try:
                        done = connection.recv()
                    except (EOFError, OSError):  # the worker is gone: killed, out of memory, ...
                        if (given_up := self._handle_dead_worker(busy.pop(connection), deaths, waiting)) is not None:
                            yield given_up
                        if (task := waiting.next()) is not None:
                            self._start(task, busy)
                    else:
                        yield done  # a worker continues when its last result is safe
                        self._feed(busy[connection], waiting, busy)
        finally:
            for worker in busy.values():
                worker.process.kill()
            for worker in busy.values():
                worker.process.join()
                worker.connection.close()

    def _start(self, task: Task, busy: dict[Connection, _Worker]) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._runner, os.getcwd()), daemon=True)
        with _worker_environment(), _outside_the_current_folder(), _ignore_sigint():
            process.start()
        theirs.close()  # so that the death of the worker closes the pipe
        busy[ours] = _Worker(process, ours, task)
        self._send(busy[ours], task)

    def _feed(self, worker: _Worker, waiting: _Queue, busy: dict[Connection, _Worker]) -> None:
        if (task := waiting.next()) is not None:
            worker.task = task
            self._send(worker, task)
        else:
            self._send(worker, None)
            worker.process.join()
            worker.connection.close()
            del busy[worker.connection]

    @staticmethod
    def _send(worker: _Worker, task: Task | None) -> None:
        with suppress(OSError):  # it has just died; reading from it will say so
            worker.connection.send(task)

    @staticmethod
    def _handle_dead_worker(worker: _Worker, deaths: Counter[str], waiting: _Queue) -> Attempt | None:
        """Put the task of a dead worker back in front; give it up when workers keep dying on it."""
        worker.connection.close()
        worker.process.join()
        task = worker.task
        deaths[task.name] += 1
        if deaths[task.name] < MAX_ATTEMPTS:
            waiting.put_back(task)
            return None
        return Attempt(task, error=f"{MAX_ATTEMPTS} workers died on it, the last with code {worker.process.exitcode}")


def _work(connection: Connection, runner: Runner, folder: str) -> None:
    os.chdir(folder)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while (task := connection.recv()) is not None:
        connection.send(run_task(runner, task))


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Processes started here have the environment variables of a worker."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _outside_the_current_folder() -> Iterator[None]:
    """Processes start in the folder of the standard library: Python puts the current folder, which may be anybody's,
    first on the path of a process that it starts with `-c`. The path that a worker imports by is the coordinator's."""
    before = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _ignore_sigint() -> Iterator[None]:
    """Ctrl-C reaches the whole group, and the coordinator decides. A process started here never hears it, not even
    while it is still importing: it inherits the mask, where a handler of its own would come too late."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
