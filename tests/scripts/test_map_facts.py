"""docs/map.md and docs/reproduction.md say what their tables say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from counting_interp.data import all_runs, runs
from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.statistics import group_by_cell, mechanism_of
from counting_interp.interp.sweep.table import RunRow, read_runs
from scripts.figure_facts import dip
from scripts.map_facts import COMPARING, PAGES, SECTION, gating, markdown, other_settings, reproduction, shares_table
from tests.helpers import ROOT


@pytest.mark.parametrize(("page", "write"), [*zip(PAGES, (markdown, reproduction), strict=True)])
def test_the_facts_are_those_of_the_table(page: str, write: Callable[[list[RunRow]], str]) -> None:
    """Made by `python -m scripts.map_facts --publish docs`."""
    shown = SECTION.search((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[2:-2] == write(read_runs(*all_runs())).splitlines()


def test_the_sentences_of_the_map_have_the_numbers_of_its_table() -> None:
    page = " ".join((ROOT / "docs" / "map.md").read_text(encoding="utf-8").split())
    labelled = [(run, label) for run in read_runs(runs("fig1")) if (label := mechanism_of(run)) != "unsolved"]

    def count(*models: str, wide: bool | None = None) -> Counter[str | None]:
        chosen = [(run, label) for run, label in labelled if run.cell.model in models]
        return Counter(label for run, label in chosen if wide is None or (run.cell.d >= run.cell.T) == wide)

    softmax, narrow, wide = count("bos+sftm"), count("dot", "bos", wide=False), count("dot", "bos", wide=True)
    sharpened, linear = count("dot+sftm"), count("lin", "lin+sftm")
    assert f"{softmax['RC']} of its {softmax.total()} solved runs are RC" in page
    assert f"{softmax['IC']} are IC, {softmax['mixed']} mixed, {softmax['gated']} gated" in page
    assert f"{narrow['gated']} of {narrow.total()} solved runs are gated" in page
    assert f"{wide['RC']} of {wide.total()} are RC, {wide['gated']} gated and {wide['mixed']} mixed" in page
    assert f"None of the {(narrow + wide).total()} is an inventory" in page
    assert (narrow + wide)["IC"] == 0
    assert f"`lin` and `lin+sftm`: {linear['IC']} of {linear.total()}" in page
    assert f"`dot+sftm`: {sharpened['IC']} of {sharpened.total()}" in page
    cells = [group for cell, group in group_by_cell(run for run, _ in labelled).items() if cell.model in COMPARING]
    pairs = [[mechanism_of(run) for run in group] for group in cells if len(group) == 2]
    same = sum(one == other for one, other in pairs)
    assert f"In {len(pairs)} cells both runs of a comparing model count; in {same} they" in page


def _run(model: str, d: int, label: str, run: int = 0, T: int = 32, gated: float = 0.0, **axes: Any) -> RunRow:
    job = SweepJob(SweepCell(model, T, 10, d, 32, **axes), run)
    shares = {"verdict_rc": 1 - gated, "verdict_ic": 0.0, "verdict_gated": gated}
    measured = {"verdict_mechanism": label, **({} if label == "unsolved" else shares)}
    return RunRow(job, job.seed, 20, 95.0 + (T == 64), 96.0, 0.1, 1.0, measured=measured)


def test_other_settings_stand_beside_the_same_cells_of_fig_1() -> None:
    usual = [_run("dot", 32, "RC"), _run("dot", 16, "gated"), _run("dot+sftm", 32, "IC"), _run("bos", 4, "unsolved")]
    usual += [_run("lin", 8, "IC")]  # where no other setting was tried
    second = [_run("dot", 32, "IC", run=1), _run("dot+sftm", 32, "IC", run=1), _run("lin", 8, "IC", run=1)]
    third = [_run("dot", 32, "RC", run=2)]  # not compared
    larger = [_run("dot", 32, "RC", T=64), _run("dot", 16, "gated", T=64), _run("dot", 64, "RC", T=64)]
    layers = [
        *(_run("dot+sftm", 32, "IC", run, n_layers=2) for run in range(2)),
        _run("bos", 4, "IC", n_layers=2),
        _run("dot", 32, "unsolved", n_layers=2),
    ]
    rows = {row[0]: row[1:] for row in other_settings([*usual, *second, *third, *larger, *layers])}
    # solved here, and there; accuracy; RC, gated at d >= T (of this setting); gated below; IC of dot+sftm; the same
    expected = {
        "2 layers": ["3 of 4", "2 of 3", "+0.0", "-", "-", "0 of 1", "2 of 2", "-"],
        "T=64": ["3 of 3", "2 of 2", "+1.0", "1 of 1", "0 of 1", "1 of 2", "-", "2 of 2"],
        "another seed": ["3 of 3", "3 of 3", "+0.0", "0 of 1", "0 of 1", "-", "1 of 1", "0 of 1"],
    }
    assert {words: [text.split(" (")[0] for text in row] for words, row in rows.items()} == expected
    assert rows["T=64"][7] == "2 of 2 (16 to 100 %)"


def test_labels_and_mean_shares_by_model_and_width() -> None:
    runs = [
        *(_run("dot", 8, "gated", run, gated=0.9) for run in range(3)),
        *(_run("dot", 16, label, run, gated=gated) for run, (label, gated) in enumerate((("gated", 0.6), ("RC", 0.2)))),
        *(_run("dot", 32, label, run) for run, label in enumerate(("RC", "unsolved"))),
        _run("dot", 16, "gated", n_layers=2),  # not of Fig. 1
        _run("lin", 4, "IC"),
    ]
    table = {row[:2]: row[2:] for row in shares_table(runs)}
    assert table["dot", ">= T"] == ("2", "1", "1", "0", "0", "0", "1.00", "0.00", "0.00")
    assert table["dot", "< T"] == ("5", "5", "1", "4", "0", "0", "0.30", "0.00", "0.70")
    assert table["bos", "< T"] == ("0", "0", "0", "0", "0", "0", "-", "-", "-")
    assert [*gating(runs)] == [
        ("8", "0.90 (3)", "-", "-"),
        ("16", "0.40 (2)", "-", "-"),
        ("32", "0.00 (1)", "-", "-"),
    ]


def test_a_dip_falls_and_rises_by_five_points() -> None:
    assert dip([50.0, 44.0, 52.0])
    assert not dip([50.0, 46.0, 60.0])  # falls by four points
    assert not dip([50.0, 40.0, 44.0])  # stays low
    assert not dip([10.0, 50.0, 90.0])
