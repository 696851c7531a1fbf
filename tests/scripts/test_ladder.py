"""The ladder's runs resume, and its page shows what its table holds."""

from __future__ import annotations

import pytest

from counting_interp.models.training import Recipe
from scripts import ladder
from scripts.ladder_table import PLACE, markdown, picture, read_table
from tests.helpers import ROOT


def test_the_page_shows_the_table():
    """Made by `python -m scripts.ladder FOLDER --publish docs`."""
    rows = read_table(ROOT / "docs")
    shown = PLACE.search((ROOT / "docs" / "ladder.md").read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[2:-2] == markdown(rows).rstrip("\n").splitlines()
    assert sum(row["runs"] for row in picture(rows).table) == len(rows)


def test_every_rung_adds_something():
    recipes = {rung: ladder.Stack(rung, True, 16, 6, 32, 4, range(1)) for rung in ladder.RUNGS}
    made = [(one.config(0).name, one.recipe.weight_decay) for one in recipes.values()]
    assert len(set(made)) == len(ladder.RUNGS) == 8


@pytest.mark.slow
def test_a_second_climb_finds_everything_done(tmp_path, monkeypatch):
    monkeypatch.setattr(ladder, "SIZES", ((6, 4, 8),))
    monkeypatch.setattr(ladder, "UNITS", (4,))
    monkeypatch.setattr(ladder, "SEEDS", range(3))
    monkeypatch.setattr(ladder, "RUNGS", {"values": "+values", "weight decay": "+values+2heads+causal"})
    monkeypatch.setattr(ladder, "RECIPE", Recipe(epochs=1, sequences=64, validation=50))
    ladder.climb(tmp_path)
    rows = ladder.finished(tmp_path)
    assert [(row.rung, row.bos, row.seed) for row in rows[:4]] == [
        ("values", False, 0),
        ("values", False, 1),
        ("values", False, 2),
        ("weight decay", False, 0),
    ]
    assert len(rows) == 12
    monkeypatch.setattr(ladder, "advance_together", None)
    ladder.climb(tmp_path)
    for line in tmp_path.glob("*_s1.json"):
        line.unlink()
    ladder.climb(tmp_path)  # classified again, not trained again
    assert ladder.finished(tmp_path) == rows
