"""Runs tasks in worker processes: on this machine (`LocalWorkers`), or on a dask.distributed cluster (`Cluster`).

A task, handed to a worker, becomes an attempt: a result, or the reason why there is none. Neither backend knows what a
task does. A worker that dies takes no result with it: its task goes to another one.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from counting_interp.util.errors import InterpError, printable

MAX_ATTEMPTS = 3  # workers that may die on one task
WINDOW = 1000  # tasks with the scheduler at a time: they may carry files, and there may be thousands
REACHABLE = 3.0  # seconds to find out whether a scheduler listens
# One thread for each library: a run's bits and speed must not depend on what runs beside it.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Task(Protocol):
    """Something to do, with a unique name. It is pickled on its way to a worker."""

    @property
    def name(self) -> str: ...


Runner = Callable[[Any], Any]  # task in, result out; a function of a module, or a value that can be pickled


@dataclass(frozen=True)
class Attempt:
    """The outcome of a task: its result, or else an error in one line."""

    task: Any
    result: Any = None
    error: str | None = None


class Backend(Protocol):
    """Turns tasks into attempts, each exactly once, in any order.

    Attributes:
        workers: how many tasks run at a time.
    """

    @property
    def workers(self) -> int: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]:
        """Attempts as they end. Closing the generator, or an interruption, stops the tasks that are not done."""
        ...


def run_task(runner: Runner, task: Task) -> Attempt:
    """Do a task. An exception in it becomes its error and does not stop the others."""
    try:
        return Attempt(task, runner(task))
    except InterpError as error:
        return Attempt(task, error=str(error))
    except Exception as error:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(raised.filename).name}:{raised.lineno}"
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


# --- on this machine --------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task

    def send(self, task: Task | None) -> None:
        """None ends the worker."""
        with suppress(OSError):  # it has just died; reading from it will say so
            self.connection.send(task)


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
        """See `Backend`."""
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
        with _inherited_by_workers():
            process.start()
        theirs.close()  # so that the death of the worker closes the pipe
        busy[ours] = _Worker(process, ours, task)
        busy[ours].send(task)

    @staticmethod
    def _feed(worker: _Worker, waiting: _Queue, busy: dict[Connection, _Worker]) -> None:
        task = waiting.next()
        worker.send(task)
        if task is not None:
            worker.task = task
        else:
            worker.process.join()
            worker.connection.close()
            del busy[worker.connection]

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
def _inherited_by_workers() -> Iterator[None]:
    """What a process that is started here inherits.

    - SIGINT is blocked. Ctrl-C reaches the whole group, and the coordinator decides. A handler of the worker's own
      would come too late: while it is importing.
    - One thread for each library.
    - The folder of the standard library. Python puts the current folder, which may be anybody's, first on the path of
      a process that it starts with `-c`. The path that a worker imports by is the coordinator's.
    """
    folder, given = os.getcwd(), {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.environ.update(ONE_THREAD)
        os.chdir(os.path.dirname(os.__file__))
        yield
    finally:
        os.chdir(folder)
        for name in ONE_THREAD:
            del os.environ[name]
        os.environ.update(given)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# --- on a cluster -----------------------------------------------------------------------------------------------------


class Cluster:
    """The workers of a running dask.distributed scheduler, which may span many machines. Extra: `[cluster]`.

    Workers need this package installed; start them with one thread each (`dask worker tcp://... --nthreads 1`).
    Results come back to the coordinator, which alone writes them: no shared file system is needed.

    Args:
        address: of the scheduler, as `tcp://host:8786`.
        timeout: seconds to wait for the scheduler to answer.

    Raises:
        InterpError: if dask.distributed is not installed, or no scheduler answers.
    """

    def __init__(self, address: str, runner: Runner, timeout: float = 10) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise InterpError(
                "a scheduler needs dask.distributed: install the package with its extra [cluster]"
            ) from error
        self._address, self._runner = address, runner
        try:
            _check_reachable(address, min(REACHABLE, timeout))
            self._client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InterpError(
                f"no dask scheduler answers at {printable(address)}; start one with `dask scheduler`, "
                "and workers with `dask worker tcp://HOST:8786 --nthreads 1`"
            ) from error
        # dask reports a lost connection in tracebacks, of its own and of asyncio's; `run` says it in a sentence
        for name in ["asyncio", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed"))]:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

    @property
    def workers(self) -> int:
        known = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(1, sum(worker["nthreads"] for worker in known))

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]:
        """See `Backend`."""
        submitted: dict[Any, Task] = {}
        try:
            yield from self._attempts(enumerate(tasks), submitted)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise InterpError(
                f"the dask scheduler at {printable(self._address)} has gone; finished runs are kept, "
                "and the same command resumes as soon as a scheduler answers"
            ) from error
        finally:
            with suppress(Exception):  # a scheduler that is gone has nothing to withdraw
                if submitted and self._client.status == "running":
                    self._client.cancel(list(submitted), force=True)
                self._client.close(timeout=REACHABLE)

    def _attempts(self, waiting: Iterator[tuple[int, Task]], submitted: dict[Any, Task]) -> Iterator[Attempt]:
        """Attempts as they end, with never more than a window of tasks in `submitted`."""
        from distributed import as_completed

        submitted.update({self._submit(*numbered): numbered[1] for numbered in islice(waiting, WINDOW)})
        ended = as_completed(list(submitted), loop=self._client.loop)
        for future in ended:
            if future.status == "cancelled" and self._client.status != "running":
                raise ConnectionError("the connection to the scheduler is lost")
            yield _attempt(future, submitted.pop(future))
            for number, task in islice(waiting, 1):
                fresh = self._submit(number, task)
                submitted[fresh] = task
                ended.add(fresh)

    def _submit(self, number: int, task: Task) -> Any:
        # the process is part of the key: a result that an earlier coordinator left behind is not mistaken for ours
        key = f"{task.name}-{os.getpid()}-{id(self)}"
        return self._client.submit(run_task, self._runner, task, key=key, pure=False, priority=-number)


def _check_reachable(address: str, seconds: float) -> None:
    """Raises OSError or ValueError if nothing listens there. dask itself would try for half a minute."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls"):
        return  # inproc, ucx, ...: left to dask
    if not parts.hostname or not parts.port:
        raise ValueError("an address has a host and a port")
    socket.create_connection((parts.hostname, parts.port), timeout=seconds).close()


def _attempt(future: Any, task: Task) -> Attempt:
    """A worker's answer, or why the scheduler gave up (for instance, because workers keep dying on the task)."""
    if future.status == "finished":
        return future.result()
    error = future.exception() if future.status == "error" else f"the task was {future.status} by the scheduler"
    return Attempt(task, error=f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error)
