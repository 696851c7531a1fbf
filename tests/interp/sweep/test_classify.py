"""Finding out how the runs of a sweep count: once each, whatever interrupts it, into the same table."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from counting_interp.interp.sweep.run import classify_sweep, read_status, run_sweep
from counting_interp.interp.sweep.store import CLASSIFYING, TRAINING, Store
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.interp.sweep.worker import PROOF, VERDICT, Measuring, TrainRun, measure_checkpoint, measure_model
from counting_interp.util.errors import InterpError
from tests.helpers import small_block
from tests.interp.sweep import fakes
from tests.interp.sweep.test_resume import NAMES, start
from tests.interp.sweep.test_table import Serial
from tests.interp.sweep.watching import DEADLINE, appears, ends

BOTH = Measuring((VERDICT, PROOF), 5.0)


@pytest.fixture
def marks(tmp_path, monkeypatch):
    monkeypatch.setenv(fakes.FOLDER, str(tmp_path))
    return tmp_path / "marks"


def test_a_real_verdict_and_a_real_proof_are_in_the_table(tmp_path):
    run_sweep(tmp_path / "sweep", fakes.jobs(2), Serial(fakes.untrained))
    assert len(classify_sweep(tmp_path / "sweep", Serial(measure_checkpoint), Measuring()).now) == 2
    first = read_runs(tmp_path / "sweep")
    assert [run.measured["verdict_mechanism"] for run in first] == ["unsolved", "unsolved"]
    assert not any(name.startswith("proof") for run in first for name in run.measured)

    assert len(classify_sweep(tmp_path / "sweep", Serial(measure_checkpoint), BOTH).now) == 2
    runs = read_runs(tmp_path / "sweep")
    for run, before in zip(runs, first, strict=True):
        assert before.measured.items() <= run.measured.items()  # the verdict was not asked for again
        assert run.measured["proof_proof"] == "refuted"
        assert (run.measured["proof_counts"], run.measured["proof_limit"]) == (2, 5.0)  # published: 3 is never shown
        assert 0 <= run.measured["proof_share"] < 1
    assert [(group.classified, group.verified) for group in read_status(tmp_path / "sweep")] == [(2, 2)]
    (tmp_path / "table.csv").write_text(write_runs(runs))
    again = read_runs(tmp_path / "table.csv")
    assert set(again[0].measured) == set(runs[0].measured)
    assert write_runs(again) == write_runs(runs)
    assert read_runs(tmp_path / "table.csv", tmp_path / "sweep") == runs  # of two tables, each run once


def test_where_nothing_can_be_proved_the_verdict_stands():
    found = measure_model(small_block("dot+sftm+values+causal"), BOTH)
    assert found[VERDICT].row["mechanism"] == "unsolved"
    assert found[PROOF].row["proof"] == "impossible"
    assert found[PROOF].row["share"] is None


def test_a_kill_costs_no_second_pass(tmp_path, marks, monkeypatch):
    run_sweep(tmp_path / "sweep", fakes.jobs(), Serial(fakes.instant))
    monkeypatch.setenv(fakes.STUCK, NAMES[3])
    coordinator = start(tmp_path / "sweep", "judged_stuck_once", 1)
    worker = int(appears(tmp_path / "stuck"))
    coordinator.kill()
    assert coordinator.wait(DEADLINE) == -signal.SIGKILL
    ends(worker)
    with Store(tmp_path / "sweep") as store:
        assert {record.job.name for record in store.records() if VERDICT in record.measured} == set(NAMES[:3])
    summary = classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring())
    assert (len(summary.before), len(summary.now)) == (3, 3)
    assert Counter(marks.read_text().split()) == Counter(NAMES)
    assert classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring()).now == ()


def test_again_begins_anew(tmp_path, marks):
    run_sweep(tmp_path / "sweep", fakes.jobs(), Serial())
    classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring())
    assert len(classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring(), again=True).now) == 6
    assert len(marks.read_text().split()) == 12


def test_runs_without_a_checkpoint_and_wrong_ones_are_named(tmp_path, marks):
    run_sweep(tmp_path / "sweep", fakes.jobs(3), Serial(fakes.untrained))
    runs = read_runs(tmp_path / "sweep")
    paths = [tmp_path / "sweep" / run.checkpoint for run in runs]
    paths[0].unlink()
    paths[2].write_bytes(paths[1].read_bytes())
    summary = classify_sweep(tmp_path / "sweep", Serial(measure_checkpoint), Measuring())
    assert summary.lost == (runs[0].job.name,)
    assert summary.now == (runs[1].job.name,)
    assert "holds another model than its run" in summary.failed[runs[2].job.name]


def test_a_sweep_may_run_while_it_is_classified_but_not_be_classified_twice(tmp_path, marks):
    run_sweep(tmp_path / "sweep", fakes.jobs(2), Serial())
    with Store(tmp_path / "sweep", TRAINING):
        assert len(classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring()).now) == 2
    with (
        Store(tmp_path / "sweep", CLASSIFYING),
        pytest.raises(InterpError, match="another classification is running"),
    ):
        classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring())


@pytest.mark.slow
def test_runs_are_classified_as_they_finish_and_checkpoints_dropped(tmp_path, monkeypatch):
    jobs = fakes.jobs(2, epochs=1)
    run_sweep(tmp_path / "sweep", jobs, Serial(TrainRun(BOTH, keep=False)), classify=True)
    runs = read_runs(tmp_path / "sweep")
    assert all({"verdict_mechanism", "proof_share"} <= set(run.measured) and not run.checkpoint for run in runs)
    assert os.listdir(tmp_path / "sweep" / "checkpoints") == []
    assert [group.lost for group in read_status(tmp_path / "sweep")] == [0]  # not kept is not lost

    def fails(model, measuring):
        raise FloatingPointError("no")

    monkeypatch.setattr("counting_interp.interp.sweep.worker.measure_model", fails)
    run = TrainRun(BOTH, keep=False)(jobs[0])
    assert run.complaint == "FloatingPointError: no"
    assert run.checkpoint  # so that it can be asked again
