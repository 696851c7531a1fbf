"""What a day can do to a sweep's database: flipped bits, full disks, lost files, older versions."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from counting_interp.interp.sweep import grid
from counting_interp.interp.sweep.rows import TABLES
from counting_interp.interp.sweep.run import read_status, run_sweep, status_lines
from counting_interp.interp.sweep.store import FILE, TRAINING, Store, SweepError, rescue, sqlite_errors_mention
from counting_interp.interp.sweep.table import read_runs, write_runs
from tests.helpers import run_interp
from tests.interp.sweep import fakes, old_database
from tests.interp.sweep.test_table import Serial


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / FILE)) as connection, connection:
        connection.execute(statement)


def overwrite(path: Path, where: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(where)
        file.write(data)


def test_a_database_of_the_first_version_opens_and_goes_on(tmp_path):
    old_database.make(tmp_path, fakes.jobs(4), finished=2)
    runs = read_runs(tmp_path)
    assert [(run.job, run.final, run.version) for run in runs] == [(job, 50.0, "") for job in fakes.jobs(2)]
    assert [group.finished for group in read_status(tmp_path)] == [2]
    summary = run_sweep(tmp_path, fakes.jobs(4), Serial())
    assert (len(summary.before), len(summary.now)) == (2, 2)
    assert [bool(run.version) for run in read_runs(tmp_path)] == [False, False, True, True]


def test_a_new_axis_leaves_old_names_seeds_and_databases_as_they_are(tmp_path, monkeypatch):
    """What a new field of the record does: nothing to runs that have its default."""
    old_database.make(tmp_path, fakes.jobs(2), finished=2)
    before = [(job.name, job.seed) for job in fakes.jobs(2)]

    @dataclasses.dataclass(frozen=True)
    class Wider(grid.SweepCell):
        heads: int = 1

    monkeypatch.setattr(grid, "SweepCell", Wider)
    monkeypatch.setattr(grid, "AXES", (*grid.AXES, "heads"))
    monkeypatch.setitem(grid.AXIS_TYPES, "heads", "int")
    monkeypatch.setitem(grid.AXIS_DEFAULTS, "heads", 1)
    monkeypatch.setitem(TABLES["jobs"], "heads", "INTEGER")
    usual = [grid.SweepJob(Wider(**vars(job.cell)), job.run) for job in fakes.jobs(2)]
    wide = grid.SweepJob(dataclasses.replace(usual[0].cell, heads=4), 0)
    assert [(job.name, job.seed) for job in usual] == before
    assert wide.name == before[0][0].replace("_run0", "_heads-4_run0")
    assert wide.seed != usual[0].seed
    assert [run.job for run in read_runs(tmp_path)] == usual
    summary = run_sweep(tmp_path, [*usual, wide], Serial())
    assert (len(summary.before), summary.now) == (2, (wide.name,))
    assert [run.cell.setting["heads"] for run in read_runs(tmp_path)] == [1, 1, 4]
    assert wide.cell.label.endswith("heads=4")
    table = tmp_path / "table.csv"
    table.write_text(write_runs(read_runs(tmp_path)))
    assert [run.job for run in read_runs(table)] == [*usual, wide]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE results SET final = 12.5 WHERE rowid = 2",
        "UPDATE results SET losses = '[1.0, 0.25]' WHERE rowid = 2",
        "UPDATE results SET checkpoint = '../../etc/passwd' WHERE rowid = 2",
        "UPDATE jobs SET d = 3 WHERE rowid = 2",
        "UPDATE jobs SET model = 'mamba' WHERE rowid = 2",
        "DELETE FROM jobs WHERE rowid = 2",
    ],
)
def test_a_changed_value_is_noticed_and_the_rest_is_rescued(tmp_path, statement):
    run_sweep(tmp_path, fakes.jobs(), Serial())
    change(tmp_path, statement)
    with pytest.raises(
        SweepError, match=r"is damaged .*: [56] of 6 results are whole; `interp sweep rescue DIR` keeps"
    ):
        read_runs(tmp_path)
    assert rescue(tmp_path).kept["results"] == 5
    assert len(read_runs(tmp_path)) == 5
    assert len(run_sweep(tmp_path, fakes.jobs(), Serial()).now) == 1
    assert len(read_runs(tmp_path)) == 6
    with pytest.raises(SweepError, match="is there from an earlier rescue"):
        rescue(tmp_path)


@pytest.mark.parametrize("value", ["'x'", "-1.0", "1e9", "NULL"])
def test_impossible_results_of_the_first_version_are_noticed(tmp_path, value):
    old_database.make(tmp_path, fakes.jobs(2), finished=2)
    change(tmp_path, f"UPDATE results SET best = {value} WHERE rowid = 1")
    with pytest.raises(SweepError, match="1 of 2 results are whole"):
        read_runs(tmp_path)


def test_broken_pages_are_noticed_whichever_they_are(tmp_path):
    run_sweep(tmp_path, fakes.jobs(40), Serial())
    whole = (tmp_path / FILE).read_bytes()
    pages = len(whole) // 4096
    assert pages > 8
    for page in range(pages):
        overwrite(tmp_path / FILE, page * 4096 + 100 * (page == 0), b"\xff" * 64)
        with pytest.raises(SweepError, match="rescue"):
            read_runs(tmp_path)
        kept = rescue(tmp_path).kept
        assert kept["results"] <= 40
        assert len(read_runs(tmp_path)) == kept["results"]
        (tmp_path / f"{FILE}.damaged").unlink()
        (tmp_path / FILE).write_bytes(whole)


def test_the_command_says_it_in_one_line_and_does_not_end_well(tmp_path):
    run_sweep(tmp_path, fakes.jobs(), Serial())
    change(tmp_path, "UPDATE results SET final = 12.5 WHERE rowid = 2")
    done = run_interp("sweep", "status", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    done = run_interp("sweep", "rescue", tmp_path)
    assert done.stdout.startswith("kept 6 jobs, 5 results, 0 measured; the damaged file is")


def test_a_truncated_database_keeps_what_is_left(tmp_path):
    run_sweep(tmp_path, fakes.jobs(40), Serial())
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data[: len(data) // 2])
    with pytest.raises(SweepError, match="rescue"):
        read_runs(tmp_path)
    rescue(tmp_path)
    assert len(run_sweep(tmp_path, fakes.jobs(40), Serial()).before) < 40
    assert len(read_runs(tmp_path)) == 40


def test_an_empty_database_beside_checkpoints_is_not_taken_for_a_new_sweep(tmp_path):
    run_sweep(tmp_path, fakes.jobs(), Serial())
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(SweepError, match="is empty: the results of the runs are lost"):
        run_sweep(tmp_path, fakes.jobs(), Serial())


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(tmp_path):
    """SQLite's own limit on pages stands for the disk's."""
    run_sweep(tmp_path, fakes.jobs(2), Serial())
    with Store(tmp_path, TRAINING) as store:
        store.plan(fakes.jobs(4))
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        long = dataclasses.replace(fakes.instant(fakes.jobs()[3]), losses=(1.5,) * 5000)
        with pytest.raises(SweepError, match="disk is full; finished runs are kept; make room, and the same command"):
            store.record(fakes.jobs()[3], long)
    assert len(read_runs(tmp_path)) == 2
    assert len(run_sweep(tmp_path, fakes.jobs(4), Serial()).now) == 2


def test_a_disk_that_is_full_for_checkpoints_is_the_same_error(tmp_path):
    with (
        pytest.raises(SweepError, match=r"x\.pt: No space left on device; finished runs are kept"),
        sqlite_errors_mention(tmp_path),
    ):
        raise OSError(28, "No space left on device", "x.pt")


def test_a_checkpoint_that_is_gone_is_noticed_and_its_run_can_be_repeated(tmp_path):
    run_sweep(tmp_path, fakes.jobs(), Serial())
    gone = tmp_path / read_runs(tmp_path)[2].checkpoint
    before = gone.read_bytes()
    gone.unlink()
    assert [group.lost for group in read_status(tmp_path)] == [1]
    assert "1 checkpoints are gone; `interp sweep run --redo-missing`" in status_lines(read_status(tmp_path))[-1]
    summary = run_sweep(tmp_path, fakes.jobs(), Serial())
    assert (len(summary.before), summary.now, summary.lost) == (6, (), (gone.stem,))
    summary = run_sweep(tmp_path, fakes.jobs(), Serial(), redo_missing=True)
    assert (len(summary.before), summary.now, summary.lost) == (5, (gone.stem,), ())
    assert gone.read_bytes() == before
    assert [group.lost for group in read_status(tmp_path)] == [0]


def test_a_loss_that_is_not_a_number_goes_through_the_table(tmp_path):
    (job,) = fakes.jobs(1)
    with Store(tmp_path, TRAINING) as store:
        store.plan([job])
        store.record(job, dataclasses.replace(fakes.instant(job), losses=(1.0, float("nan"))))
    (run,) = read_runs(tmp_path)
    assert run.loss != run.loss
    (tmp_path / "table.csv").write_text(write_runs([run]))
    (again,) = read_runs(tmp_path / "table.csv")
    assert again.loss != again.loss
    assert dataclasses.replace(again, loss=0.0) == dataclasses.replace(run, loss=0.0)
