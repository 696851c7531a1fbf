"""The same tasks on a running dask.distributed scheduler, which may span many machines. Extra: `[cluster]`.

Workers need this package installed; start them with one thread each (`dask worker tcp://... --nthreads 1`). A worker
that dies is no loss: the scheduler gives its task to another one. Results come back to the coordinator, which alone
writes them: no shared file system is needed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from counting_interp.interp.jobs import Attempt, Runner, Task, run_task
from counting_interp.util.errors import InterpError, printable

WINDOW = 1000  # tasks with the scheduler at a time: they may carry files, and there may be thousands
REACHABLE = 3.0  # seconds to find out whether anybody listens at all


class Cluster:
    """The workers of a scheduler, however many there are while the sweep runs.

    Args:
        address: of the scheduler, as `tcp://host:8786`.
        timeout: seconds to wait for the scheduler to answer.
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

        _quieten()

    @property
    def workers(self) -> int:
        known = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(1, sum(worker["nthreads"] for worker in known))

    def run(self, tasks: Iterable[Task]) -> Iterator[Attempt]:
        """Attempts as they end. Closing the generator, or an interruption, withdraws what has not been done."""
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
    """Does anybody listen there? dask itself asks for half a minute, also where the address is nonsense."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls"):
        return  # inproc, ucx, ...: dask's own business
    if not parts.hostname or not parts.port:
        raise ValueError("an address has a host and a port")
    socket.create_connection((parts.hostname, parts.port), timeout=seconds).close()


def _quieten() -> None:
    """dask tells of a lost connection in tracebacks, of its own and of asyncio's; `Cluster` says it in a sentence."""
    for name in ["asyncio", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed"))]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _attempt(future: Any, task: Task) -> Attempt:
    """A worker's answer, or the reason why the scheduler gave up (for instance, because workers keep dying on it)."""
    if future.status == "finished":
        return future.result()
    error = future.exception() if future.status == "error" else f"the task was {future.status} by the scheduler"
    return Attempt(task, error=f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error)
