"""A real scheduler and two worker processes on loopback, one of them killed in the middle of a job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from counting_interp.interp.jobs import Cluster
from counting_interp.interp.sweep.run import classify_sweep, run_sweep
from counting_interp.interp.sweep.store import Store
from counting_interp.interp.sweep.table import read_runs
from counting_interp.interp.sweep.worker import PROOF, VERDICT, Measuring, measure_checkpoint
from counting_interp.util.errors import InterpError
from tests.helpers import ROOT
from tests.interp.sweep import fakes
from tests.interp.sweep.test_table import Serial
from tests.interp.sweep.watching import DEADLINE, appears, ends, until

NAMES = [job.name for job in fakes.jobs()]


def dask(*arguments: str, **kwargs) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dask", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_LOGGING__DISTRIBUTED": "info"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **kwargs)


@pytest.fixture
def scheduler(cluster) -> str:
    """The address of a scheduler with two workers of one thread each, gone after the test."""
    return cluster[0]


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The same, with the scheduler's process."""
    monkeypatch.setenv(fakes.FOLDER, str(tmp_path))
    monkeypatch.setenv(fakes.STUCK, NAMES[2])
    options = ("--host", "127.0.0.1", "--no-dashboard")
    processes = [dask("scheduler", *options, "--port", "0", stderr=subprocess.PIPE)]
    try:
        assert processes[0].stderr is not None
        address = ""
        for line in processes[0].stderr:
            if found := re.search(r"Scheduler at:\s+(tcp://127\.0\.0\.1:\d+)", line):
                address = found[1]
                break
        for index in (1, 2):
            space = ("--local-directory", str(tmp_path / f"worker{index}"))
            quiet = subprocess.DEVNULL
            # no nanny: a killed worker stays dead, and its job must move to the other one
            processes.append(dask("worker", address, *options, "--nthreads", "1", "--no-nanny", *space, stderr=quiet))
        yield address, processes[0]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_a_killed_worker_costs_what_it_had_not_handed_over_and_an_interrupted_coordinator_goes_on(scheduler, tmp_path):
    folder = tmp_path / "sweep"
    command = [sys.executable, "-m", "tests.interp.sweep.coordinate", str(folder), "stuck_once", "2", scheduler]
    with subprocess.Popen(command, cwd=ROOT) as coordinator:
        worker = int(appears(tmp_path / "stuck"))
        os.kill(worker, signal.SIGKILL)
        assert coordinator.wait(DEADLINE) == 0
    ends(worker)
    with Store(folder) as store:
        assert {record.job.name for record in store.records() if record.result} == set(NAMES)
        finals = [record.result.final for record in store.records() if record.result]
    made = [line.split() for line in (tmp_path / "makers").read_text().splitlines()]
    # a result that the dead worker alone held is made again, by the other one; nothing else runs a second time
    assert {name for name, _ in made} == set(NAMES)
    assert max(Counter(name for name, maker in made if maker != str(worker)).values()) == 1
    assert max(Counter(map(tuple, made)).values()) == 1
    assert finals == [fakes.instant(job).final for job in fakes.jobs()]

    again = run_sweep(folder, fakes.jobs(8), Cluster(scheduler, fakes.marked))  # the remaining worker does the rest
    assert sorted(again.before) == sorted(NAMES)
    assert len(again.now) == 2


@pytest.mark.slow
def test_classifying_on_a_cluster_gives_the_same_table(scheduler, tmp_path):
    tables = []
    for name, backend in (("here", Serial(measure_checkpoint)), ("there", Cluster(scheduler, measure_checkpoint))):
        run_sweep(tmp_path / name, fakes.jobs(), Serial(fakes.untrained))
        summary = classify_sweep(tmp_path / name, backend, Measuring((VERDICT, PROOF), 60.0))
        assert sorted(summary.now) == sorted(NAMES)
        runs = read_runs(tmp_path / name)
        tables.append([{k: v for k, v in run.measured.items() if not k.endswith("_seconds")} for run in runs])
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_a_scheduler_that_dies_is_one_sentence_and_nothing_is_lost(cluster, tmp_path):
    address, scheduler = cluster
    arguments = ["sweep", "run", str(tmp_path / "sweep"), "--preset", "fig1", "--scheduler", address]
    command = [sys.executable, "-m", "counting_interp", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as coordinator:
        until(lambda: any((tmp_path / "sweep").glob("checkpoints/*.pt")), "a run is finished")
        scheduler.kill()
        _, errors = coordinator.communicate(timeout=DEADLINE)
    assert coordinator.returncode == 1
    assert "has gone; finished runs are kept, and the same command resumes" in errors
    assert "Traceback" not in errors
    with Store(tmp_path / "sweep") as store:
        assert any(record.result for record in store.records())


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "tcp://", "nonsense", "tcp://127.0.0.1:x"])
def test_no_scheduler_is_a_clear_error(address, monkeypatch):
    """And dask, which would go on asking for half a minute, is not even begun with."""
    import distributed

    monkeypatch.delattr(distributed, "Client")
    monkeypatch.setattr(distributed, "Client", None, raising=False)
    with pytest.raises(InterpError, match=f"no dask scheduler answers at {address}; start one with"):
        Cluster(address, fakes.instant, timeout=0.5)
