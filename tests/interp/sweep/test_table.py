"""Tables: out of a folder, through CSV and back, and the statistics of cells worked by hand."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from counting_interp.interp.jobs import run_task
from counting_interp.interp.sweep.grid import AXES, SweepCell, SweepJob
from counting_interp.interp.sweep.run import run_sweep
from counting_interp.interp.sweep.statistics import by_cell
from counting_interp.interp.sweep.store import FILE, TRAINING, Store
from counting_interp.interp.sweep.table import RunRow, missing, read_runs, write_runs
from counting_interp.util.errors import InterpError
from tests.interp.sweep import fakes


def row(run: int, final: float, best: float, **changes) -> RunRow:
    """A run of bos+sftm, d = 45, p = 2."""
    axes: dict[str, Any] = {"model": "bos+sftm", "T": 32, "L": 10, "d": 45, "p": 2}
    axes |= {axis: changes.pop(axis) for axis in AXES if axis in changes}
    facts = {"seed": 7, "parameters": 5660, "final": final, "best": best, "loss": 0.5, "seconds": 1.5, **changes}
    return RunRow(SweepJob(SweepCell(**axes), run), **facts)


class Serial:
    """A backend without processes."""

    workers = 1

    def __init__(self, runner=fakes.instant):
        self.runner = runner

    def run(self, tasks):
        for task in tasks:
            yield run_task(self.runner, task)


def test_statistics_worked_by_hand():
    runs = [row(0, 90, 95), row(1, 99, 99.5), row(2, 100, 100), row(3, 99, 99), row(0, 50, 60, p=4)]
    first, second = by_cell(runs)
    assert (first.runs, first.mean, first.best, first.solved) == (4, 97, 100, 0.75)
    assert first.std == pytest.approx(((49 + 4 + 9 + 4) / 3) ** 0.5)
    assert (second.cell.p, second.runs, second.mean, second.std, second.best, second.solved) == (4, 1, 50, None, 60, 0)


def test_a_run_is_missing_where_it_was_not_measured_as_asked():
    first, second, third = (row(run, 90, 95) for run in range(3))
    verdict = dataclasses.replace(first, measured={"verdict_mechanism": "RC"})
    both = dataclasses.replace(second, measured={"verdict_mechanism": "RC", "proof_proof": "refuted"})
    jobs, known = [first.job, second.job, third.job], [verdict, both]
    assert missing(jobs, known) == [third.job]
    assert missing(jobs, known, ["verdict"]) == [third.job]
    assert missing(jobs, known, ["verdict", "proof"]) == [first.job, third.job]
    assert missing(jobs, []) == jobs


def test_a_table_reads_back(tmp_path):
    runs = [row(0, 99.1234, 99.5), row(1, 12.5, 13.25, frozen=True, checkpoint="checkpoints/a.pt")]
    path = tmp_path / "table.csv"
    path.write_text(write_runs(runs))
    assert read_runs(path) == runs


def test_a_folder_and_its_export_hold_the_same_runs(tmp_path):
    run_sweep(tmp_path / "sweep", fakes.jobs(), Serial())
    runs = read_runs(tmp_path / "sweep")
    assert [r.job for r in runs] == fakes.jobs()
    for job, run in zip(fakes.jobs(), runs, strict=True):
        assert (run.seed, run.parameters) == (job.seed, job.config().num_parameters)
        assert (tmp_path / "sweep" / run.checkpoint).read_bytes() == f"weights of {job.name}".encode()
        assert (run.final, run.loss, run.seconds) == (fakes.instant(job).final, 0.5, 0.25)
    (tmp_path / "table.csv").write_text(write_runs(runs))
    assert read_runs(tmp_path / "table.csv") == runs


def test_curves_are_kept(tmp_path):
    run_sweep(tmp_path, fakes.jobs(2), Serial())
    with closing(sqlite3.connect(tmp_path / "sweep.sqlite")) as database:
        found = database.execute("SELECT losses, accuracies FROM results WHERE name = ?", [fakes.jobs()[0].name])
        losses, accuracies = map(json.loads, found.fetchone())
    assert losses == [1.0, 0.5]
    assert accuracies == pytest.approx(fakes.instant(fakes.jobs()[0]).accuracies)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("d,p", "d,q"), "lacks the column 'p'"),
        ((",45,", ",forty,"), r"line 2: d cannot be 'forty'"),
        ((",45,", ",-1,"), "d must be between 1"),
        (("bos+sftm", "mamba"), "the model must be one of"),
        ((",99,99,", ",nan,99,"), r"line 2: final cannot be 'nan'"),
        ((",99,99,", ",99,inf,"), r"line 2: best cannot be 'inf'"),
        ((",1.5,", ",-inf,"), r"line 2: seconds cannot be '-inf'"),
        ((",99,99,", ",99,99,99,"), r"line 2: it has 20 cells, the header does not"),
        ((",published,", ",random,"), r"line 2: the sampler must be one of paper, published, uniform, got 'random'"),
        ((",500,", ",0,"), r"line 2: a run needs at least one epoch, got 0"),
        ((",45,", f",{'4' * 200_000},"), r"line 2: field larger than field limit"),
    ],
)
def test_broken_tables_are_refused_with_the_reason(tmp_path, change, message):
    path = tmp_path / "table.csv"
    path.write_text(write_runs([row(0, 99, 99)]).replace(*change))
    with pytest.raises(InterpError, match=message):
        read_runs(path)


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "9" * 400])
def test_a_measurement_that_is_no_number_is_refused(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(write_runs([row(0, 99, 99, measured={"verdict_kept": 0.125})]).replace("0.125", text))
    with pytest.raises(InterpError, match=r"line 2: verdict_kept cannot be (nan|inf|-inf|a int)"):
        read_runs(path)


def test_what_is_no_sweep_is_refused(tmp_path):
    with pytest.raises(InterpError, match="holds no sweep"):
        read_runs(tmp_path)
    with pytest.raises(InterpError, match="cannot be read as a table: No such file or directory; `interp"):
        read_runs(tmp_path / "absent")
    (tmp_path / FILE).write_text("not a database, but long enough to look at: " + "x" * 100)
    with pytest.raises(InterpError, match=r"file is not a database; .*rescue"):
        read_runs(tmp_path)


def test_a_run_is_recorded_once_and_a_repeated_one_replaces_it(tmp_path):
    (job,) = fakes.jobs(1)
    with Store(tmp_path, TRAINING) as store:
        store.plan([job])
        store.record(job, fakes.instant(job))
        store.record(job, dataclasses.replace(fakes.instant(job), final=1.0))
    assert [run.final for run in read_runs(tmp_path)] == [1.0]
