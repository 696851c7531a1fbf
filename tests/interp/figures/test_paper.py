"""The paper's figures: all of them, from the zoo, the constructions, and whatever sweeps there are."""

from __future__ import annotations

import pytest

from interp.figures.paper import PAPER, Sources, draw, missing
from tests.helpers import run_interp


def test_numbers_and_names_are_unique_and_complete() -> None:
    numbers = [int(figure.number.removeprefix("Fig ")) for figure in PAPER]
    assert sorted({*numbers, 7}) == list(range(1, 22))  # Fig. 7 is Fig. 6 for the second language model
    assert len({figure.name for figure in PAPER}) == len(PAPER)


@pytest.mark.parametrize("figure", PAPER, ids=lambda figure: figure.name)
def test_each_is_drawn_or_says_how_to_make_its_data(figure) -> None:
    drawings = list(draw(figure.name))
    assert drawings
    for drawing in drawings:
        assert drawing.name.startswith(figure.number.replace(" ", ""))
        assert drawing.caption.startswith(figure.title)
        assert drawing.caption.endswith(figure.note)
        assert drawing.table


def test_missing_data_name_the_command() -> None:
    drawing = missing("T15")
    assert "interp sweep run sweeps/T15 --preset T15" in drawing.caption
    assert "interp sweep run sweeps/T15 --preset T15" in drawing.layout.annotations[0].text


def test_a_user_s_sweep_fills_the_gap(tmp_path) -> None:
    from interp.sweep.table import write_runs
    from tests.interp.sweep.test_table import row

    table = tmp_path / "T15.csv"
    table.write_text(write_runs([row(0, 90.0, 95.0, model="dot", T=15)]))
    (drawing,) = draw("T15", Sources([table]))
    assert "missing" not in drawing.name


def test_unknown_figures_are_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean two-layers"):
        list(draw("two-layer"))


def test_the_command_draws_and_explains(tmp_path) -> None:
    done = run_interp("figures", "paper", "--only", "step-function", "--format", "html", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "Fig8-step-function-step-function.html").exists()
    assert (tmp_path / "Fig8-step-function-step-function.csv").exists()
    listed = run_interp("figures", "--list")
    assert all(figure.name in listed.stdout for figure in PAPER)
    assert run_interp("figures").returncode == 2
    assert run_interp("figures", "paper", "--only", "nothing", "-o", tmp_path).returncode == 2
    assert run_interp("figures", tmp_path / "absent.pt", "-o", tmp_path).returncode == 3
