"""docs/map.md and docs/reproduction.md say what their tables say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from counting_interp.data import all_runs
from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.table import RunRow, read_runs
from scripts.map_facts import PAGES, PLACE, facts, gating, markdown, other_settings, reproduction
from tests.helpers import ROOT

NUMBERS = ("accuracy", "kept", "with_t", "with_s", "transfer")


def _numbers(row: dict[str, str]) -> dict[str, float]:
    return {"step": int(row["step"]), **{name: float(row[name]) for name in NUMBERS}}


@pytest.mark.parametrize(("page", "write"), [*zip(PAGES, (markdown, reproduction), strict=True)])
def test_the_facts_are_those_of_the_table(page: str, write: Callable[[list[RunRow]], str]) -> None:
    """Made by `python -m scripts.map_facts --publish docs`."""
    shown = PLACE.search((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[2:-2] == write(read_runs(*all_runs())).splitlines()


def _run(model: str, d: int, label: str, run: int = 0, T: int = 32, **axes: Any) -> RunRow:
    job = SweepJob(SweepCell(model, T, 10, d, 32, **axes), run)
    verdict = {"verdict_label": "mixed", "verdict_case": "gated"} if label == "gated" else {"verdict_label": label}
    return RunRow(job, job.seed, 20, 95.0 + (T == 64), 96.0, 0.1, 1.0, measured=verdict)


def test_other_settings_stand_beside_the_same_cells_of_fig_1() -> None:
    usual = [_run("dot", 32, "RC"), _run("dot", 16, "gated"), _run("dot+sftm", 32, "IC"), _run("bos", 4, "unsolved")]
    usual += [_run("lin", 8, "IC")]  # where no other setting was tried
    second = [_run("dot", 32, "IC", run=1), _run("dot+sftm", 32, "IC", run=1), _run("lin", 8, "IC", run=1)]
    third = [_run("dot", 32, "RC", run=2), _run("dot+sftm", 32, "IC", run=1, n_layers=2)]  # not compared
    larger = [_run("dot", 32, "RC", T=64), _run("dot", 16, "RC", T=64), _run("dot", 64, "RC", T=64)]
    layers = [
        _run("dot+sftm", 32, "IC", n_layers=2),
        _run("bos", 4, "IC", n_layers=2),
        _run("dot", 32, "unsolved", n_layers=2),
    ]
    rows = {row[0]: row[1:] for row in other_settings([*usual, *second, *third, *larger, *layers])}
    alike = "another seed, where other settings were tried"
    assert [*rows] == ["2 layers", "T=64", "another seed", alike]
    # solved here, and there; accuracy; RC at d >= T (of this setting); RC, gated at d <= T/2; IC of dot+sftm; the same
    expected = {
        "2 layers": ["2 of 3", "2 of 3", "+0.0", "-", "0 of 1", "0 of 1", "1 of 1", "1 of 1"],
        "T=64": ["3 of 3", "2 of 2", "+1.0", "1 of 1", "2 of 2", "0 of 2", "-", "1 of 2"],
        "another seed": ["3 of 3", "3 of 3", "+0.0", "0 of 1", "-", "-", "1 of 1", "2 of 3"],
        alike: ["2 of 2", "2 of 2", "+0.0", "0 of 1", "-", "-", "1 of 1", "1 of 2"],
    }
    assert {words: [text.split(" (")[0] for text in row] for words, row in rows.items()} == expected
    assert rows["T=64"][4] == "2 of 2 (16% to 100%)"


def test_what_two_runs_of_a_cell_agree_on_and_where_gating_ends() -> None:
    runs = [
        *(_run("dot", 8, "gated", run) for run in range(3)),  # the third is not compared
        *(_run("dot", 16, label, run) for run, label in enumerate(("gated", "RC"))),
        *(_run("dot", 32, label, run) for run, label in enumerate(("RC", "unsolved"))),
        *(_run("bos", 16, "RC", run) for run in range(2)),
        _run("dot", 16, "gated", n_layers=2),
        _run("lin", 4, "IC"),
    ]
    agreed = {share.of: (share.found, share.among) for share in facts(runs) if share.are == "of one mechanism"}
    assert agreed == {"cells of dot with two solved runs": (1, 2), "cells of bos with two solved runs": (1, 1)}
    assert [*gating(runs)] == [
        ("8", "3 of 3", "-", "-"),
        ("16", "1 of 2", "0 of 2", "-"),
        ("32", "0 of 1", "-", "-"),
    ]
