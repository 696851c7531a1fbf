"""Tables that come with the package, and how one grows."""

from __future__ import annotations

from dataclasses import replace

from counting_interp.data import all_runs, runs
from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.table import RunRow, read_runs, write_runs
from scripts.bundle import add


def row(p: int, run: int = 0, **measured: str) -> RunRow:
    job = SweepJob(SweepCell("dot", 5, 3, d=2, p=p), run)
    return RunRow(job, job.seed, 20, 90.0, 91.0, 0.5, 1.0, f"checkpoints/{job.name}.pt", measured=measured)


def test_a_table_grows_by_a_sweep_and_keeps_what_says_more(tmp_path):
    table, sweep = tmp_path / "grown.csv", tmp_path / "sweep.csv"
    sweep.write_text(write_runs([row(8), row(4, verdict_mechanism="RC")]))
    assert add(table, sweep) == 2
    sweep.write_text(write_runs([row(4), row(8, verdict_mechanism="IC"), row(8, 1)]))
    assert add(table, sweep) == 3
    rows = read_runs(table)
    assert [(run.cell.p, run.run) for run in rows] == [(4, 0), (8, 0), (8, 1)]
    assert [run.measured.get("verdict_mechanism") for run in rows] == ["RC", "IC", None]
    assert [replace(run, measured={}) for run in rows[:1]] == [replace(row(4), checkpoint="")]


def test_a_run_is_in_one_bundled_table_only():
    tables = all_runs()
    assert runs("fig1") in tables
    assert sum(len(read_runs(table)) for table in tables) == len(read_runs(*tables))
