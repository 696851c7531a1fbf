"""Maps of mechanisms: the right colour in the right cell, on tables worked by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from counting_interp.interp.figures import style
from counting_interp.interp.figures.mechanism_map import letters
from counting_interp.interp.figures.panels import borders, runs_per_cell
from counting_interp.interp.figures.phase import map_figures
from counting_interp.interp.sweep.statistics import MECHANISMS, mechanism_of, mechanisms
from counting_interp.interp.sweep.table import write_runs
from tests.helpers import run_interp
from tests.interp.figures.test_sweeps import traces
from tests.interp.sweep.test_table import row


def judged(run, mechanism, *, rc=0.0, share=None, **axes):
    """A classified run, verified if it has a `share`."""
    found = {"verdict_mechanism": mechanism, "verdict_rc": rc, "verdict_ic": 0.0, "verdict_gated": 1 - rc}
    return row(run, 99.0, 99.0, measured=found | ({} if share is None else {"proof_share": share}), **axes)


RUNS = [
    judged(0, "RC", rc=0.9, share=1.0, d=32, p=4),
    judged(1, "RC", rc=0.7, share=0.5, d=32, p=4),
    judged(0, "gated", d=8, p=4),
    judged(1, "IC", d=8, p=4),
    judged(2, "IC", d=8, p=4),
    judged(0, "unsolved", d=8, p=2),
    row(0, 50.0, 50.0, d=32, p=2),
]


def draw(*only):
    return {drawing.name: drawing for drawing in map_figures(RUNS, only)}


def test_mechanisms_of_cells_by_hand():
    cells = {(cell.cell.d, cell.cell.p): cell for cell in mechanisms(RUNS)}
    assert set(cells) == {(32, 4), (8, 4), (8, 2)}  # what is not classified is not there
    assert (cells[32, 4].main, cells[32, 4].share, cells[32, 4].shares["RC"], cells[32, 4].proved) == (
        "RC",
        1,
        0.8,
        0.75,
    )
    assert cells[8, 4].main == "IC"
    assert cells[8, 4].share == pytest.approx(2 / 3)
    assert cells[8, 4].counts == {"RC": 0, "gated": 1, "mixed": 0, "IC": 2, "unsolved": 0}
    assert (cells[8, 2].shares, cells[8, 2].proved) == ({}, None)  # an unsolved model is not asked how it counts
    assert mechanism_of(RUNS[2]) == "gated"
    assert mechanism_of(RUNS[-1]) is None


def test_colours_lie_in_their_cells_and_missing_ones_stay_empty():
    figure = draw("mechanism")["map_mechanism_T32_L10"]
    (heat,) = traces(figure, "bos+sftm", "heatmap")
    (unsolved, inventory), (missing, relation) = [list(line) for line in heat.z]  # rows d = 8, 32; columns p = 2, 4
    assert missing is None
    assert [int(value) for value in (relation, inventory, unsolved)] == [0, 3, 4]
    assert inventory % 1 == pytest.approx(0.01 + 0.98 * 2 / 3)
    assert [text.text for text in figure.layout.annotations if "<b>" in text.text] == ["<b>bos+sftm</b>"]  # none empty
    entries = {trace.name.split()[0].strip(":") for trace in figure.data if trace.showlegend}
    assert entries == {*MECHANISMS, "paler"}  # and no accuracy: all cells lie above the levels
    (agreed,) = map_figures(RUNS[:2], ["mechanism"])
    assert not [trace for trace in agreed.data if trace.showlegend and trace.name.startswith("paler")]
    assert [line["RC"] for line in figure.table] == [2, 0, 0]


def test_letters_tell_mechanisms_apart_without_colour():
    assert {*style.MECHANISMS} == {*MECHANISMS}
    assert len({look.letters for look in style.MECHANISMS.values()}) == len(MECHANISMS)
    assert all(re.fullmatch("#[0-9A-F]{6}", look.colour) for look in style.MECHANISMS.values())


def test_numbers_have_maps_of_their_own_where_there_are_any():
    figures = draw()
    assert set(figures) == {
        f"map_{name}_T32_L10" for name in ("mechanism", "share-RC", "share-IC", "share-gated", "proved")
    }
    (heat,) = traces(figures["map_proved_T32_L10"], "bos+sftm", "heatmap")
    assert [list(line) for line in heat.z] == [[None, None], [None, 75]]  # on the grid of the mechanism map
    assert figures["map_proved_T32_L10"].layout.plot_bgcolor == "white"
    assert [drawing.name for drawing in map_figures(RUNS[5:])] == ["map_mechanism_T32_L10"]
    with pytest.raises(ValueError, match="got 'median'"):
        list(map_figures(RUNS, ["median"]))


def test_lines_of_accuracy_run_between_cells_and_are_explained():
    low = replace(judged(0, "unsolved", d=8, p=2), final=40.0)
    high = [judged(0, "RC", d=d, p=p) for d, p in ((8, 4), (32, 4))]  # 99 %; d = 32, p = 2 is missing
    (figure,) = map_figures([low, *high], ["mechanism"])
    (line,) = [shape for shape in figure.layout.shapes if shape.type == "path"]
    assert line.path == "M0.5,-0.5L0.5,0.5"  # between p = 2 and 4, along d = 8, and nowhere else
    assert "accuracy 90 %" in {trace.name for trace in figure.data if trace.showlegend}


def test_how_many_runs_a_cell_has():
    assert [runs_per_cell(counts) for counts in ([1, 1], [2, 2], [3, 1, 2])] == [
        "one run per cell",
        "2 runs per cell",
        "1 to 3 runs per cell",
    ]
    assert "1 to 3 classified runs per cell" in draw("mechanism")["map_mechanism_T32_L10"].caption


def test_borders_by_hand():
    """A tile alone in the middle has a frame; beside a missing tile there is no edge."""
    sizes = (1, 2, 4, 8)
    frame = borders({(d, p): (d, p) == (2, 2) for d in sizes for p in sizes}, sizes, sizes)
    edges = ["M0.5,0.5L0.5,1.5", "M0.5,0.5L1.5,0.5", "M0.5,1.5L1.5,1.5", "M1.5,0.5L1.5,1.5"]
    assert sorted(f"M{stroke}" for stroke in frame.split("M")[1:]) == edges
    upright = borders({(d, p): p > 2 for d in sizes for p in sizes}, sizes, sizes)
    assert upright == "".join(f"M1.5,{i - 0.5}L1.5,{i + 0.5}" for i in range(4))
    assert borders({(1, 1): True, (8, 8): False}, sizes, sizes) == ""


def test_no_line_runs_over_a_letter():
    """T = 32 is one of the sizes: its name is bold, and no line goes through its tiles."""
    figure = draw("mechanism")["map_mechanism_T32_L10"]
    assert list(figure.layout.yaxis.ticktext) == ["8", "<b>32</b>"]
    assert not [
        trace for trace in traces(figure, "bos+sftm", "scatter") if trace.mode == "lines" and trace.x != (None,)
    ]
    assert not figure.layout.shapes


def test_small_letters_say_what_the_other_runs_of_a_cell_do():
    relation, inventory, unsolved = mechanisms(RUNS)
    assert [letters(cell) for cell in (relation, inventory, unsolved)] == ["R", "Ig", ""]
    (cell,) = mechanisms([judged(run, label) for run, label in enumerate(("RC", "unsolved", "unsolved", "IC", "IC"))])
    assert letters(cell) == "Iu"  # of equally frequent ones the first of the legend is the main one; one other is told
    told = [trace for trace in traces(draw("mechanism")["map_mechanism_T32_L10"], "bos+sftm", "scatter") if trace.text]
    assert [(trace.text, trace.textfont.color) for trace in told] == [(("R", "Ig"), ("white", "#222222"))]


def test_the_command_writes_the_maps_and_says_what_is_missing(tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text(write_runs(RUNS))
    done = run_interp("figures", "map", table, "--format", "html", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").glob("map_*.html"))) == 5
    table.write_text(write_runs(RUNS[-1:]))
    done = run_interp("figures", "map", table, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "no run of the sweep is classified yet; `interp sweep classify DIR` does that" in done.stderr
