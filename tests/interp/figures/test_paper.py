"""The paper's figures: all of them, from the zoo, the constructions, and whatever sweeps there are."""

from __future__ import annotations

import pytest

from counting_interp.interp.figures.paper import PAPER, Sources, draw, missing, summary
from counting_interp.interp.figures.phase import sweep_figures
from counting_interp.interp.llm.reading import read_evaluation
from counting_interp.interp.llm.tables import answers_csv
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.util.errors import InterpError
from tests.helpers import run_interp
from tests.interp.figures.test_language_models import result
from tests.interp.sweep.test_table import row


def test_numbers_and_names_are_unique_and_complete() -> None:
    numbers = [int(figure.number.removeprefix("Fig ")) for figure in PAPER]
    assert sorted({*numbers, 7}) == list(range(1, 22))  # Fig. 7 is Fig. 6 for the second language model
    assert len({figure.name for figure in PAPER}) == len(PAPER)


@pytest.mark.parametrize("figure", PAPER, ids=lambda figure: figure.name)
def test_each_is_drawn_or_says_how_to_make_its_data(figure) -> None:
    drawings = list(draw(figure.name))
    assert drawings
    for drawing in drawings:
        assert drawing.name.endswith("-missing") == (figure.name == "language-models")  # whose answers are not bundled
        assert drawing.name.startswith(figure.number.replace(" ", ""))
        assert drawing.caption.startswith(figure.title)
        assert drawing.caption.endswith(figure.note)
        assert drawing.table


def test_missing_data_name_the_command() -> None:
    drawing = missing("T15")
    assert "interp sweep run sweeps/T15 --preset T15" in drawing.caption
    assert "interp sweep run sweeps/T15 --preset T15" in drawing.layout.annotations[0].text


def test_a_user_s_sweep_fills_the_gap(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("counting_interp.interp.sweep.bundled.bundled_tables", list)
    table = tmp_path / "T15.csv"
    table.write_text(
        write_runs([row(0, 90.0, 95.0, model="dot", T=15), row(0, 80.0, 85.0, model="dot", T=15, epochs=9)])
    )
    sources = Sources([table])
    (drawing,) = draw("T15", sources)  # one budget, not two
    assert drawing.name == "Fig15-T15"
    (absent,) = draw("T64", sources)
    assert summary([drawing, absent], sources) == (
        "1 figures drawn, 1 missing (Fig16-T64; their notes say how to make them), from 2 runs"
    )


def test_partial_sweeps_leave_no_empty_panel(tmp_path) -> None:
    """Random embeddings without a cell in common with learned ones; two runs, hence a scatter, of one model only."""
    table = tmp_path / "some.csv"
    rows = [row(i, 90.0, 95.0, model="dot", T=15, d=8, p=8) for i in range(2)]
    rows += [row(0, 90.0, 95.0, model="lin", T=15, d=8, p=8), row(0, 50.0, 60.0, model="dot", T=15, d=16, frozen=True)]
    table.write_text(write_runs(rows))
    assert list(sweep_figures(read_runs(table), ["difference"])) == []
    (scatter,) = sweep_figures(read_runs(table), ["std"])
    assert [title.text for title in scatter.layout.annotations] == ["<b>dot</b>"]


def test_answers_of_a_language_model_fill_the_gap(tmp_path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "answers.csv").write_text(answers_csv(result()))
    again = read_evaluation(folder)
    assert again.measures == result().measures
    for measure in again.measures:
        assert (again.confusion(None, measure).counts == result().confusion(None, measure).counts).all()
    (drawing,) = draw("language-models", Sources(llm=[folder]))
    assert drawing.name == "Fig6-language-models"
    with pytest.raises(InterpError, match="nothing"):
        read_evaluation(tmp_path / "nothing")


def test_composites_keep_the_numbers_and_the_axes_of_their_panels() -> None:
    """Every trace on axes of its own panel, side by side and without overlap; every number with its panel's letter."""
    (figure,) = draw("singular-values")
    boxes = []
    for trace in figure.data:
        x, y = (figure.layout[f"{a}axis{getattr(trace, f'{a}axis')[1:]}"].domain for a in "xy")
        boxes.append((*x, *y))
    assert len(set(boxes)) == 6
    for i, (left, right, low, high) in enumerate(sorted(set(boxes))):
        for other in sorted(set(boxes))[i + 1 :]:
            assert right < other[0] or other[1] < left or high < other[2] or other[3] < low
    assert {line["panel"] for line in figure.table} == set("abcdef")
    assert [trace.name for trace in figure.data if trace.showlegend] == ["W₁", "weighted by the data"]


def test_unknown_figures_are_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean two-layers"):
        list(draw("two-layer"))


def test_the_command_draws_and_explains(tmp_path) -> None:
    done = run_interp("figures", "paper", "--only", "step-function", "--format", "html", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "Fig8-step-function.html").exists()
    assert (tmp_path / "Fig8-step-function.csv").exists()
    runs = len(Sources().runs)
    assert done.stderr.splitlines()[-1].endswith(f"1 figures drawn, 0 missing, from {runs:,} runs")
    listed = run_interp("figures", "--list")
    assert all(figure.name in listed.stdout for figure in PAPER)
    assert run_interp("figures").returncode == 2
    assert run_interp("figures", "paper", "--only", "nothing", "-o", tmp_path).returncode == 2
    assert run_interp("figures", tmp_path / "absent.pt", "-o", tmp_path).returncode == 3
