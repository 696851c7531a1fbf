"""Worker processes on this machine. A worker that dies takes no result with it: its job goes to a fresh one."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import cast

from interp.sweep.grid import Job
from interp.sweep.training import Outcome, Runner, attempt, train_job

MAX_ATTEMPTS = 3
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    job: Job


class LocalWorkers:
    """`workers` processes, one job at a time each, one thread each."""

    def __init__(self, workers: int, runner: Runner = train_job) -> None:
        if workers < 1:
            raise ValueError(f"a sweep needs at least one worker, got {workers}")
        self.workers = workers
        self._runner = runner
        self._context = get_context("spawn")

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Outcomes as they come. Closing the generator, or an interruption, ends the workers."""
        waiting = deque(jobs)
        deaths: Counter[str] = Counter()
        busy: dict[Connection, _Worker] = {}
        try:
            while waiting and len(busy) < self.workers:
                self._start(waiting.popleft(), busy)
            while busy:
                for connection in cast("list[Connection]", wait(list(busy))):
                    try:
                        outcome = connection.recv()
                    except (EOFError, OSError):  # the worker is gone: killed, out of memory, ...
                        if (given_up := self._bury(busy.pop(connection), deaths, waiting)) is not None:
                            yield given_up
                        if waiting:
                            self._start(waiting.popleft(), busy)
                    else:
                        yield outcome  # a worker goes on when its last result is safe
                        self._feed(busy[connection], waiting, busy)
        finally:
            for worker in busy.values():
                worker.process.kill()
            for worker in busy.values():
                worker.process.join()
                worker.connection.close()

    def _start(self, job: Job, busy: dict[Connection, _Worker]) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._runner), daemon=True)
        with _one_thread():
            process.start()
        theirs.close()  # so that the death of the worker closes the pipe
        busy[ours] = _Worker(process, ours, job)
        self._send(busy[ours], job)

    def _feed(self, worker: _Worker, waiting: deque[Job], busy: dict[Connection, _Worker]) -> None:
        if waiting:
            worker.job = waiting.popleft()
            self._send(worker, worker.job)
        else:
            self._send(worker, None)
            worker.process.join()
            worker.connection.close()
            del busy[worker.connection]

    @staticmethod
    def _send(worker: _Worker, job: Job | None) -> None:
        with suppress(OSError):  # it has just died; reading from it will say so
            worker.connection.send(job)

    @staticmethod
    def _bury(worker: _Worker, deaths: Counter[str], waiting: deque[Job]) -> Outcome | None:
        """Put the job of a dead worker back in front; give it up when workers keep dying on it."""
        worker.connection.close()
        worker.process.join()
        job = worker.job
        deaths[job.name] += 1
        if deaths[job.name] < MAX_ATTEMPTS:
            waiting.appendleft(job)
            return None
        return Outcome(job, error=f"{MAX_ATTEMPTS} workers died on it, the last with code {worker.process.exitcode}")


def _work(connection: Connection, runner: Runner) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the coordinator decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while (job := connection.recv()) is not None:
        connection.send(attempt(runner, job))


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started here get one thread for each library: a run's bits and speed must not depend on its company."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
