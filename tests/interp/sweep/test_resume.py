"""Killed at any moment, a sweep loses no finished run and repeats none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import asdict

from counting_interp.interp.jobs import MAX_ATTEMPTS, LocalWorkers
from counting_interp.interp.sweep.grid import ordered
from counting_interp.interp.sweep.run import run_sweep
from counting_interp.interp.sweep.store import TRAINING, Store
from counting_interp.util.errors import InterpError
from tests.helpers import ROOT
from tests.interp.sweep import fakes
from tests.interp.sweep.watching import DEADLINE, appears, ends

NAMES = [job.name for job in fakes.jobs()]


@pytest.fixture
def marks(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(fakes.FOLDER, str(tmp_path))
    return tmp_path / "marks"


def start(folder: Path, runner: str, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.interp.sweep.coordinate", str(folder), runner, str(workers)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True)


def finished(folder: Path) -> set[str]:
    with Store(folder) as store:
        return {record.job.name for record in store.records() if record.result}


def test_killed_coordinator_goes_on_where_it_stopped(tmp_path, marks, monkeypatch):
    stuck = ordered(fakes.jobs())[3]
    monkeypatch.setenv(fakes.STUCK, stuck.name)
    coordinator = start(tmp_path / "sweep", "stuck_once", 1)
    worker = int(appears(tmp_path / "stuck"))
    coordinator.kill()
    assert coordinator.wait(DEADLINE) == -signal.SIGKILL
    ends(worker)  # a worker does not outlive its coordinator
    first = [job.name for job in ordered(fakes.jobs())[:3]]
    assert finished(tmp_path / "sweep") == set(first)

    summary = run_sweep(tmp_path / "sweep", fakes.jobs(), LocalWorkers(1, fakes.stuck_once))
    assert set(summary.before) == set(first)
    assert not summary.failed
    assert finished(tmp_path / "sweep") == set(NAMES)
    assert Counter(marks.read_text().split()) == Counter(NAMES)


def test_killed_worker_loses_nothing(tmp_path, marks, monkeypatch):
    monkeypatch.setenv(fakes.STUCK, NAMES[2])
    coordinator = start(tmp_path / "sweep", "stuck_once", 2)
    os.kill(int(appears(tmp_path / "stuck")), signal.SIGKILL)
    assert coordinator.wait(DEADLINE) == 0
    assert finished(tmp_path / "sweep") == set(NAMES)
    assert Counter(marks.read_text().split()) == Counter(NAMES)


def test_a_job_that_kills_every_worker_is_given_up(tmp_path, marks, monkeypatch):
    monkeypatch.setenv(fakes.STUCK, NAMES[0])
    summary = run_sweep(tmp_path / "sweep", fakes.jobs(2), LocalWorkers(1, fakes.deadly))
    assert summary.failed == {NAMES[0]: f"{MAX_ATTEMPTS} workers died on it, the last with code -9"}
    assert finished(tmp_path / "sweep") == {NAMES[1]}


def test_an_error_in_a_run_stops_no_other_and_is_tried_again(tmp_path):
    summary = run_sweep(tmp_path, fakes.jobs(), LocalWorkers(1, fakes.broken))
    bad = [job.name for job in fakes.jobs() if job.cell.p == 2]
    assert sorted(summary.failed) == sorted(bad)
    assert all("FloatingPointError: the loss is not finite" in text for text in summary.failed.values())
    assert sorted(run_sweep(tmp_path, fakes.jobs(), LocalWorkers(1, fakes.instant)).now) == sorted(bad)


def test_ctrl_c_ends_coordinator_and_workers(tmp_path, marks, monkeypatch):
    monkeypatch.setenv(fakes.STUCK, NAMES[-1])
    coordinator = start(tmp_path / "sweep", "stuck_once", 1)
    worker = int(appears(tmp_path / "stuck"))
    os.killpg(coordinator.pid, signal.SIGINT)
    assert coordinator.wait(DEADLINE) in (130, -signal.SIGINT)  # Python's way out; the command line says 130
    ends(worker)
    summary = run_sweep(tmp_path / "sweep", fakes.jobs(), LocalWorkers(2, fakes.stuck_once))
    assert sorted([*summary.before, *summary.now]) == sorted(NAMES)
    assert Counter(marks.read_text().split()) == Counter(NAMES)


def contents(folder: Path) -> tuple[list[dict], dict[str, bytes]]:
    """Results and checkpoints, without what a clock measured."""
    with Store(folder) as store:
        records = store.records()
    clocks = ("seconds", "finished", "digest")
    rows = [{key: value for key, value in asdict(r.result).items() if key not in clocks} for r in records if r.result]
    return rows, {path.name: path.read_bytes() for path in sorted((folder / "checkpoints").iterdir())}


def test_results_do_not_depend_on_the_number_of_workers(tmp_path):
    run_sweep(tmp_path / "one", fakes.jobs(), LocalWorkers(1, fakes.instant))
    run_sweep(tmp_path / "two", fakes.jobs(), LocalWorkers(2, fakes.instant))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_two_coordinators_in_one_folder_are_refused(tmp_path):
    with Store(tmp_path, TRAINING), pytest.raises(InterpError, match="another sweep is running"):
        Store(tmp_path, TRAINING)
    with Store(tmp_path, TRAINING):  # and the lock is gone with its holder
        pass
