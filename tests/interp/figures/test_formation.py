"""Formation: the snapshots of one run on one axis, through the command."""

from __future__ import annotations

import csv

import pytest

from models import CountingTransformer
from models.constructions import construct
from tests.helpers import run_interp


def test_snapshots_of_a_run_are_drawn_in_order(tmp_path) -> None:
    """An untrained model at step 10, the same configuration solved at step 100."""
    solved = construct("ic-lin", T=8, L=5)
    for model, step in ((solved, 100), (CountingTransformer(solved.config), 10)):
        model.metadata.update(step=step, seed=0)
        model.save(tmp_path / f"step-{step:06d}.pt")
    done = run_interp("figures", tmp_path, "--only", "formation", "--format", "html", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "out" / "formation.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["step"]), row["label"]) for row in rows] == [(10, "unsolved"), (100, "IC")]
    assert (float(rows[1]["kept"]), float(rows[1]["with_s"])) == pytest.approx((1, 1))
