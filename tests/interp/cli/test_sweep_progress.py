"""What a sweep says while it runs."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from counting_interp.interp.cli import console
from counting_interp.interp.cli.sweep import SECONDS_BETWEEN_LINES, Reporter
from counting_interp.interp.jobs import Attempt
from counting_interp.interp.sweep.grid import SweepCell, SweepJob, cost, seconds_left
from counting_interp.interp.sweep.run import Status, status_lines
from counting_interp.interp.sweep.worker import TrainedRun
from counting_interp.util.text import duration
from tests.interp.sweep import fakes

SMALL, LARGE = (SweepCell("dot", T=32, L=10, d=size, p=size) for size in (8, 128))


def test_time_left_is_measured_time_scaled_by_cost():
    assert seconds_left([], [SMALL], 2) is None
    assert seconds_left([(SMALL, 10.0)], [SMALL] * 6, 2) == pytest.approx(30)
    assert seconds_left([(SMALL, 10.0)], [LARGE], 1) == pytest.approx(10 * cost(LARGE) / cost(SMALL))
    assert cost(LARGE) > 3 * cost(SMALL)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (90, "2 min"), (3700, "1 h 02 min")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def done(job, final):
    return Attempt(job, TrainedRun(final, final, (), (), 10.0))


def test_plain_lines_come_now_and_then_and_at_the_end(capsys):
    now = 0.0
    jobs = [SweepJob(SMALL, run) for run in range(4)]
    reporter = Reporter(Progress(disable=True), workers=1, clock=lambda: now)
    reporter.begin([], jobs)
    reporter.report(done(jobs[0], 50.0))
    assert capsys.readouterr().err == "interp: 0 of 4 runs are done, 4 left, 1 at a time\n"
    now = SECONDS_BETWEEN_LINES
    reporter.report(done(jobs[1], 99.5))
    assert capsys.readouterr().err == (
        "interp: 2 of 4 runs · dot d=8 p=8 run 1: 99.50 %, 2 left (about 20 s) · all in about 20 s\n"
    )
    reporter.report(Attempt(jobs[2], error="broken"))
    assert capsys.readouterr().err == f"interp: {jobs[2].name} failed: broken\n"
    reporter.report(done(jobs[3], 1.0))
    assert capsys.readouterr().err == "interp: 4 of 4 runs · dot d=8 p=8 run 3: 1.00 %\n"


def test_quiet_leaves_results_and_errors(capsys, monkeypatch):
    monkeypatch.setattr(console, "quiet", True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert not console.shows_progress()
    jobs = [SweepJob(SMALL, run) for run in range(2)]
    reporter = Reporter(Progress(disable=True), workers=1)
    reporter.begin([], jobs)
    reporter.report(Attempt(jobs[0], error="broken"))
    reporter.report(done(jobs[1], 1.0))
    assert capsys.readouterr().err == f"interp: {jobs[0].name} failed: broken\n"


def test_status_sums_over_models():
    lines = status_lines([Status("dot", 2, 1, 10, 5, 60.0, 120.0), Status("lin", 2, 0, 10, 0, 0.0, None)])
    assert lines[1].split() == ["dot", "5/10", "1/2", "0", "0", "1", "min", "2", "min"]
    assert lines[2].split()[-1] == "?"
    assert lines[3].split()[:3] == ["all", "5/20", "1/4"]


def test_labels_name_what_is_unusual():
    assert SMALL.label == "dot d=8 p=8"
    assert fakes.jobs(1, n_layers=2, frozen=True)[0].cell.label == "dot d=2 p=1 T=5 L=3 2 layers random embeddings"
