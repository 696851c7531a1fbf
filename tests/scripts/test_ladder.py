"""The ladder's runs resume, and its page shows what its table holds."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models.training import Recipe
from scripts import ladder
from scripts.ladder import STANDARD
from scripts.ladder_table import SECTION, markdown, picture, read_table
from scripts.ladder_truths import build, tie_of
from scripts.ladder_truths import read_table as read_truths
from tests.helpers import ROOT


def test_the_page_shows_the_table():
    """Made by `python -m scripts.ladder FOLDER --publish docs`."""
    rows = read_table(ROOT / "docs")
    shown = SECTION.search((ROOT / "docs" / "ladder.md").read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].splitlines()[2:-2] == markdown(rows).rstrip("\n").splitlines()
    assert sum(row["runs"] for row in picture(rows).table) == len(rows)


def test_every_rung_adds_something():
    stacks = {rung: ladder.Stack(rung, True, 16, 6, 32, 4, range(1)) for rung in ladder.RUNGS}
    made = [(stack.config(0).name, stack.recipe.weight_decay) for rung, stack in stacks.items() if rung not in STANDARD]
    assert len(set(made)) == len(made) == 8
    blocks = {rung: stacks[rung].standard(0) for rung in STANDARD}
    assert [block.blocks[0].residual for block in blocks.values()] == [False, True, True, True, True]
    assert [hasattr(block.ln_final, "weight") for block in blocks.values()] == [False, False, True, True, True]
    assert [len(block.blocks) for block in blocks.values()] == [1, 1, 1, 2, 4]


@pytest.mark.parametrize("rung", [rung for rung in ladder.RUNGS if rung not in (*STANDARD, "weight decay")])
def test_truths_by_hand_match_equal_tokens_and_see_nothing_else_of_them(rung):
    sequence = torch.tensor([[3, 8, 3, 11, 8, 3]])
    model = build(rung, "RC", True, seed=0)
    tied = tie_of(rung, "RC")({name: weight[None] for name, weight in model.state_dict().items()})
    model.load_state_dict({name: weight[0] for name, weight in tied.items()})
    _, cache = model.run_with_cache(sequence)
    row = cache["pattern", 0][0, :, -1]  # of each head, from token 3 to `$` and all
    equal = torch.tensor([True, True, False, True, False, False, True])
    assert (row[:, equal].amin(-1) > 50 * row[:, ~equal].amax(-1)).all()
    if "+values" in ladder.RUNGS[rung]:
        value = cache["v", 0][0, 1:, 0]  # of one head, at each token
        assert (value - value[0]).norm() < 0.1 * value.norm()
    else:
        read = cache["resid_pre", 0][0, 1:] @ model.blocks[0].mlp.W_in
        assert torch.equal(read, read[:1].expand_as(read))


def test_the_page_counts_the_truths_of_the_table():
    """Made by `python -m scripts.ladder_truths FOLDER --publish docs`."""
    rows = read_truths(ROOT / "docs")
    solved = [row for row in rows if row.mechanism != "unsolved"]
    correct = sum(row.mechanism == row.truth for row in solved)
    page = " ".join((ROOT / "docs" / "ladder.md").read_text(encoding="utf-8").split())
    assert f"{len(rows)} models, {len(solved)} solved, {correct} of them labelled correctly" in page
    lowest = {
        name: min(float(getattr(row, name)) for row in solved if row.truth == name) for name in ("IC", "RC", "gated")
    }
    assert "{IC:.2f} for IC, {RC:.2f} for RC and {gated:.2f} for gated".format(**lowest) in page


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
