"""The comparison with published numbers, on tables small enough to work by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from counting_interp.data import runs as runs_of
from counting_interp.interp.sweep.compare import (
    BUNDLED,
    Published,
    compare_cells,
    comparison_lines,
    read_reference,
    tolerance,
    within_by_chance,
)
from counting_interp.interp.sweep.grid import SweepCell
from counting_interp.interp.sweep.statistics import CellStatistics, by_cell
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.util.errors import InterpError
from tests.helpers import run_interp
from tests.interp.sweep.test_table import row

REFERENCE = {
    ("bos+sftm", 45, 2, False): Published(mean=97.0, std=1.0, best=99.5, solved=True, parameters=5660),
    ("bos+sftm", 45, 4, False): Published(mean=50.0, std=20.0, best=99.5, solved=True, parameters=1),
}


def test_tolerance_worked_by_hand():
    assert tolerance(std_reference=0.0, std=0.0, runs=5) == pytest.approx(0.6)
    assert tolerance(std_reference=5.0, std=3.0, runs=3) == pytest.approx(3 * math.sqrt(25 / 5 + 9 / 3 + 0.04))
    assert tolerance(std_reference=5.0, std=None, runs=1) == pytest.approx(3 * math.sqrt(25 / 5 + 25 + 0.04))


def test_what_chance_leaves_within():
    """A single run is given their scatter, of five runs, so its deviation over the standard error has Student's t
    distribution with four degrees of freedom. Two runs have a scatter of their own, which may be tiny by chance."""
    ours = CellStatistics(SweepCell("dot", 32, 10, 4, 4), 1, 1, 50.0, None, 50.0, 0.0)
    (one,) = compare_cells([ours], {("dot", 4, 4, False): Published(50.0, 50.0, 50.0, False, 1)}).cells
    assert within_by_chance(one) == pytest.approx(0.960, abs=0.005)
    two = replace(one, ours=replace(one.ours, runs=2, std=50.0))
    assert within_by_chance(two) < within_by_chance(one) - 0.01
    assert within_by_chance(
        replace(two, ours=replace(two.ours, std=0.0), theirs=replace(two.theirs, std=0.0))
    ) == pytest.approx(0.9973, abs=0.002)  # of reading


def test_cells_within_and_outside():
    runs = [row(0, 98, 98.5), row(1, 96, 97), row(0, 99.5, 99.5, p=4), row(1, 98.5, 99, p=4)]
    result = compare_cells(by_cell(runs), REFERENCE)
    near, far = result.cells
    assert (near.ours.mean, near.deviation, near.within, near.scattered) == (97, 0, True, False)
    assert (near.solved, near.theirs.solved, near.parameters_agree) == (False, True, True)
    assert far.deviation == pytest.approx(49)
    assert far.tolerance == pytest.approx(3 * math.sqrt(400 / 5 + 0.5 / 2 + 0.04))
    assert (far.within, far.scattered, far.solved, far.parameters_agree) == (False, True, True, False)
    assert result.largest(1) == [far]
    summary = result.summary()
    assert (summary["all"]["cells"], summary["all"]["within"], summary["all"]["share"]) == (2, 1, 0.5)
    assert summary["all"]["solved_only_there"] == 1
    assert summary["steady"]["share"] == 1
    assert summary["scattered"]["share"] == 0
    text = "\n".join(comparison_lines(result, 1))
    assert "parameter counts agree in 1 of 2 cells" in text
    assert "+49.00" in text


@pytest.mark.parametrize("change", [{"T": 15}, {"L": 5}, {"n_layers": 2}, {"frozen": True}, {"d": 44}])
def test_what_is_not_comparable_is_not_compared(change):
    with pytest.raises(InterpError, match="no cell in common"):
        compare_cells(by_cell([row(0, 98, 99, **change)]), REFERENCE)


def test_two_settings_of_one_cell_are_not_mixed():
    with pytest.raises(InterpError, match="mixes samplers or numbers of epochs"):
        compare_cells(by_cell([row(0, 98, 99, epochs=20), row(0, 98, 99, epochs=40)]), REFERENCE)


def test_beside_runs_made_as_published_others_are_left_out_and_named():
    runs = [row(0, 97, 98), row(0, 20, 30, epochs=40), row(0, 20, 30, sampler="paper"), row(0, 20, 30, p=4, epochs=40)]
    result = compare_cells(by_cell(runs), REFERENCE)
    assert [(cell.ours.cell.p, cell.ours.mean) for cell in result.cells] == [(2, 97)]
    (warning,) = result.warnings
    assert warning.startswith("3 cells have no published numbers of their kind and are left out")
    assert "40 epochs" in warning
    assert "paper sampler" in warning


def test_random_embeddings_stand_by_themselves():
    """Of them only means were published, and these are read with twice the error."""
    random = Published(mean=60.0, std=0.0, best=None, solved=None, parameters=None, reading_error=0.4)
    reference = {**REFERENCE, ("bos+sftm", 45, 2, True): random}
    learned, frozen = row(0, 97, 98), row(0, 62, 63, frozen=True)
    result = compare_cells(by_cell([learned, frozen]), reference)
    summary = result.summary()
    assert (summary["all"]["cells"], summary["all"]["within"], summary["bos+sftm"]["cells"]) == (1, 1, 1)
    assert (summary["random"]["cells"], summary["random"]["within"]) == (1, 0)
    assert summary["random"]["agree_on_solved"] is None
    (worst,) = result.largest(1)
    assert worst.ours.cell.frozen
    assert worst.tolerance == pytest.approx(1.2)
    text = comparison_lines(result, 2)
    assert [line.endswith("random embeddings") for line in text[-2:]] == [True, False]
    assert next(line for line in text if line.startswith("random")).endswith(" -")
    alone = compare_cells(by_cell([frozen]), reference)
    assert [*alone.summary()] == ["random"]
    assert not any("parameter counts" in line for line in comparison_lines(alone, 1))


def test_other_budgets_samplers_and_settings_are_warned_of():
    """20 epochs against 500 are not comparable; neither is a sampler that shows count L, and T = 15 has no numbers."""
    alike = [row(0, 97.0, 98.0)]
    assert compare_cells(by_cell(alike), REFERENCE).warnings == ()
    short = [row(0, 97.0, 98.0, epochs=20), row(0, 97.0, 98.0, epochs=100, p=4)]
    (warning,) = compare_cells(by_cell(short), REFERENCE).warnings
    assert warning.startswith("budgets differ: 20, 100 epochs here, 500 there")
    mixed = [row(0, 97.0, 98.0, sampler="paper"), row(0, 20.0, 30.0, T=15)]
    result = compare_cells(by_cell(mixed), REFERENCE)
    assert [text.split(":")[0] for text in result.warnings] == [
        "samplers differ",
        "1 cells have no published numbers of their kind and are left out",
    ]
    lines = comparison_lines(result, 1)
    assert all(any(warning in line for line in lines) for warning in result.warnings)


def test_the_bundled_reference_is_whole():
    reference = read_reference()
    learned = {place[:3]: cell for place, cell in reference.items() if not place[3]}
    assert len(learned) == 6 * 14 * 14
    assert len(reference) - len(learned) == 1014  # random embeddings, where the difference was drawn
    assert learned["bos+sftm", 4, 1].solved  # the only p = 1 cell above 99 %: its marker, in its right cell
    assert sum(cell.solved for (_, d, p), cell in learned.items() if p == 1) == 1
    assert learned["dot", 32, 4].mean == pytest.approx(99.4, abs=0.1)


def test_published_numbers_agree_with_themselves(tmp_path):
    runs = []
    for (model, d, p, frozen), cell in read_reference().items():
        if not frozen:
            runs.append(row(0, cell.mean, cell.best, model=model, d=d, p=p, parameters=cell.parameters))
    (tmp_path / "table.csv").write_text(write_runs(runs))
    done = run_interp("sweep", "compare", tmp_path / "table.csv", "--reference", BUNDLED, "--json")
    document = json.loads(done.stdout)
    assert document["summary"]["all"] == {
        "cells": 1176,
        "within": 1176,
        "share": 1.0,
        "share_by_chance": pytest.approx(0.96, abs=0.01),
        "median_deviation": pytest.approx(0, abs=1e-4),
        "agree_on_solved": 1.0,
        "solved_only_here": 0,
        "solved_only_there": 0,
    }


def test_a_foreign_reference_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("model,d\nlin,3\n")
    with pytest.raises(InterpError, match="lacks the column 'p'"):
        read_reference(tmp_path / "other.csv")
    with pytest.raises(InterpError, match="cannot be read as a table"):
        read_reference(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("column", "text"),
    [("mean", "nan"), ("std", "inf"), ("best_lo", ""), ("random_mean_est", "-inf"), ("d", "4.5"), ("params", "x" * 99)],
)
def test_a_bad_row_of_a_reference_is_named(tmp_path, column, text):
    header, first, *rest = BUNDLED.read_text().splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True)) | {column: text}
    (tmp_path / "other.csv").write_text("\n".join([header, ",".join(cells.values()), *rest]))
    with pytest.raises(InterpError, match=rf"other.csv, line 2: {column} cannot be '{text[:60]}'$"):
        read_reference(tmp_path / "other.csv")


def test_the_bundled_sweep_agrees_with_the_published_figure():
    result = compare_cells(by_cell(read_runs(runs_of("fig1"))), read_reference())
    summary = result.summary()
    assert summary["all"]["within"] > 0.92 * summary["all"]["cells"]
    assert all(cell.parameters_agree for cell in result.cells)
    assert summary["all"]["share"] == pytest.approx(summary["all"]["share_by_chance"], abs=0.02)
    assert ("lin", 32, 4) in {
        (cell.ours.cell.model, cell.ours.cell.d, cell.ours.cell.p) for cell in result.largest(3)
    }  # see docs/reproduction.md
