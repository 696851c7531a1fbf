"""The same jobs on a running dask.distributed scheduler, which may span many machines. Extra: `[cluster]`.

Workers need this package installed; start them with one thread each (`dask worker tcp://... --nthreads 1`). A worker
that dies is no loss: the scheduler gives its job to another one. Results come back to the coordinator, which alone
writes them: no shared file system is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from interp.sweep.grid import Job
from interp.sweep.training import Outcome, Runner, attempt, train_job
from models.errors import InterpError, printable


class Cluster:
    """The workers of a scheduler, however many there are while the sweep runs.

    Args:
        address: of the scheduler, as `tcp://host:8786`.
        timeout: seconds to wait for the scheduler to answer.
    """

    def __init__(self, address: str, runner: Runner = train_job, timeout: float = 15) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise InterpError(
                "a scheduler needs dask.distributed: install the package with its extra [cluster]"
            ) from error
        self._runner = runner
        try:
            self._client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InterpError(
                f"no dask scheduler answers at {printable(address)}; start one with `dask scheduler`, "
                f"and workers with `dask worker {printable(address)} --nthreads 1`"
            ) from error

    @property
    def workers(self) -> int:
        known = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return max(1, sum(worker["nthreads"] for worker in known))

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Outcomes as they come. Closing the generator, or an interruption, withdraws what has not been done."""
        from distributed import as_completed

        submitted = {
            # the process is part of the key: a result that an earlier coordinator left behind is not mistaken for ours
            self._client.submit(
                attempt, self._runner, job, key=f"{job.name}-{os.getpid()}-{id(self)}", pure=False, priority=-place
            ): job
            for place, job in enumerate(jobs)
        }
        try:
            for future in as_completed(submitted, loop=self._client.loop):
                yield _outcome(future, submitted.pop(future))
        finally:
            if submitted:
                self._client.cancel(list(submitted), force=True)
            self._client.close()


def _outcome(future: Any, job: Job) -> Outcome:
    """A worker's answer, or the reason why the scheduler gave up (for instance, because workers keep dying on it)."""
    if future.status == "finished":
        return future.result()
    error = future.exception() if future.status == "error" else f"the job was {future.status} by the scheduler"
    return Outcome(job, error=f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error)
