"""`interp sweep` as a user meets it, with real training where that is the point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from counting_interp.interp.sweep.run import run_sweep
from counting_interp.interp.sweep.store import FILE
from counting_interp.interp.sweep.table import read_runs
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import InterpError
from tests.helpers import ROOT, run_interp
from tests.interp.sweep import fakes
from tests.interp.sweep.test_resume import contents
from tests.interp.sweep.test_table import Serial
from tests.interp.sweep.watching import until

SMALL = ("--preset", "quick", "--models", "dot,lin", "--d", "2", "--p", "2 4", "--epochs", "2")


@pytest.mark.slow
def test_real_runs_are_the_same_whatever_runs_beside_them(tmp_path):
    first = run_interp("sweep", "run", tmp_path / "two", *SMALL, "--workers", "2")
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"4 of 4 runs have a result in {tmp_path / 'two'}\n"
    alone = run_interp("sweep", "run", tmp_path / "one", *SMALL, "--workers", "1")
    assert alone.returncode == 0, alone.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "two")

    runs = read_runs(tmp_path / "two")
    for run in runs:
        model = CountingTransformer.load(tmp_path / "two" / run.checkpoint)
        assert (model.config.seed, model.num_parameters) == (run.seed, run.parameters)
    again = run_interp("sweep", "run", tmp_path / "two", *SMALL)
    assert "4 of 4 runs are done, 0 left" in again.stderr
    assert read_runs(tmp_path / "two") == runs


@pytest.mark.slow
def test_runs_that_a_table_has_are_not_made_again(tmp_path):
    cells = ("--preset", "quick", "--models", "dot", "--d", "2", "--p", "2", "--epochs", "1", "--workers", "1")
    first, second, table = tmp_path / "first", tmp_path / "second", tmp_path / "first.csv"
    assert run_interp("sweep", "run", first, *cells).returncode == 0
    assert run_interp("sweep", "export", first, "-o", table).returncode == 0
    done = run_interp("sweep", "run", second, *cells, "--runs", "2", "--known", table)
    assert done.stdout == f"1 of 1 runs have a result in {second}; 1 more are known elsewhere\n", done.stderr
    assert [run.run for run in read_runs(second)] == [1]
    both = read_runs(table, second)
    assert [run.run for run in both] == [0, 1]


def test_a_table_of_known_runs_that_is_none_is_refused_before_anything_begins(tmp_path):
    (tmp_path / "table.csv").write_text("not,a,table\n1,2,3\n")
    done = run_interp("sweep", "run", tmp_path / "sweep", "--known", tmp_path / "table.csv")
    assert done.returncode == 1
    assert "table.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "sweep").exists()


@pytest.mark.slow
def test_ctrl_c_says_130_and_how_to_go_on(tmp_path):
    command = [
        sys.executable,
        "-m",
        "counting_interp",
        "sweep",
        "run",
        str(tmp_path),
        "--preset",
        "fig1",
        "--workers",
        "1",
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until((tmp_path / FILE).exists, "the sweep begins")
    assert process.stderr is not None
    assert "5880 left" in process.stderr.readline()
    for _ in range(3):  # an impatient user; the workers are still importing
        os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "the same command resumes where this one stopped" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "fig7"), "the preset must be one of fig1, best,"),
        (("--models", "mamba"), "the model must be one of lin, lin+sftm"),
        (("--d", "2,x"), "--d takes integers separated by commas or blanks, got '2,x'"),
        (("--p", "0"), "p must be between 1 and 4096, got 0"),
        (("--d", ""), "at least one model, one d and one p"),
        (("--sampler", "other"), "the sampler must be one of paper, published, uniform"),
        (("--set", "sampler=other"), "the sampler must be one of paper, published, uniform"),
        (("--set", "epochs=0"), "a run needs at least one epoch, got 0"),
        (("--set", "epochs=few"), "epochs cannot be 'few'"),
    ],
)
def test_wrong_values_are_usage_errors(tmp_path, arguments, message):
    done = run_interp("sweep", "run", tmp_path / "sweep", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "sweep").exists()


def test_status_and_export(tmp_path):
    run_sweep(tmp_path, fakes.jobs(), Serial())
    document = json.loads(run_interp("sweep", "status", tmp_path, "--json").stdout)
    assert document["results"] == [
        {
            "model": "dot",
            "cells": 3,
            "cells_begun": 3,
            "runs": 6,
            "finished": 6,
            "seconds": 1.5,
            "seconds_left": 0.0,
            "classified": 0,
            "verified": 0,
            "lost": 0,
        }
    ]
    table = run_interp("sweep", "export", tmp_path).stdout
    assert table.count("\n") == 7
    assert (
        run_interp("sweep", "export", tmp_path, "-o", tmp_path / "table.csv").stdout
        == f"{tmp_path}/table.csv: 6 runs\n"
    )
    assert (tmp_path / "table.csv").read_text() == table


def test_a_folder_without_a_sweep_is_named(tmp_path):
    done = run_interp("sweep", "status", tmp_path)
    assert done.returncode == 1
    assert "holds no sweep" in done.stderr


@pytest.mark.parametrize(("old", "new"), [("--repair", "--redo-missing"), ("--verify", "--prove")])
def test_options_of_the_last_version_say_what_they_are_now(interp, tmp_path, old, new):
    code, _, err = interp("sweep", "run", tmp_path / "sweep", old)
    assert (code, f"is now '{new}'" in err) == (2, True)


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(InterpError, match="where a lock should be, is no regular file"):
        run_sweep(tmp_path, fakes.jobs(), Serial())
