"""Formation: the snapshots of one run on one axis, through the command."""

from __future__ import annotations

import csv

import pytest

from counting_interp.interp.figures.formation import step_coordinate
from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import construct
from tests.helpers import run_interp


def test_snapshots_of_a_run_are_drawn_in_order(tmp_path) -> None:
    """An untrained model at step 0, the same configuration solved at step 100."""
    solved = construct("ic-lin", T=8, L=5)
    for model, step in ((solved, 100), (CountingTransformer(solved.config), 0)):
        model.metadata.update(step=step, seed=0)
        model.save(tmp_path / f"step-{step:06d}.pt")
    done = run_interp("figures", tmp_path, "--only", "formation", "--format", "html", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "out" / "formation.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["step"]), row["mechanism"]) for row in rows] == [(0, "unsolved"), (100, "IC")]
    assert (float(rows[1]["ic"]), float(rows[1]["rc"])) == pytest.approx((1, 0))
    page = (tmp_path / "out" / "formation.html").read_text()
    assert "IC settled at step 100" in page


def test_the_axis_has_a_place_for_step_0() -> None:
    assert [step_coordinate(step) for step in (0, 9, 99)] == pytest.approx([0, 1, 2])
