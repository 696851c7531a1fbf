"""Figures of a sweep: values, markers and lines where they belong, on tables worked by hand."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from math import log10

import pytest

from counting_interp.interp.figures import style
from counting_interp.interp.figures.panels import NOT_TRAINED, edges
from counting_interp.interp.figures.phase import label_positions, sweep_figures
from counting_interp.interp.sweep.statistics import running_best, upper_hull
from counting_interp.interp.sweep.table import write_runs
from tests.helpers import run_interp
from tests.interp.browser import chromium, needs_browser
from tests.interp.sweep.test_table import row

PANELS = ["bos+sftm", "dot"]  # models that `grid` has runs of: others get no panel


def grid(**changes):
    """Two runs of three cells of bos+sftm and one of dot."""
    return [
        row(0, 100.0, 100.0, d=32, p=4, **changes),
        row(1, 90.0, 99.0, d=32, p=4, **changes),
        row(0, 98.0, 99.2, d=8, p=2, **changes),
        row(0, 20.0, 25.0, d=8, p=4, **changes),
        row(0, 99.0, 100.0, model="dot", d=32, p=2, **changes),
    ]


def draw(runs, *only):
    return {drawing.name: drawing for drawing in sweep_figures(runs, only)}


def traces(figure, model, kind):
    """Of a panel: axes are numbered in the order of the panels that are there."""
    there = [text.text for text in figure.layout.annotations if text.text.startswith("<b>")]
    axis = f"x{there.index(f'<b>{model}</b>') + 1}".replace("x1", "x")
    return [trace for trace in figure.data if trace.type == kind and (trace.xaxis or "x") == axis]


def test_values_lie_in_their_cells():
    figure = draw(grid(), "mean")["phase_mean_T32_L10"]
    (heat,) = traces(figure, "bos+sftm", "heatmap")
    assert [list(line) for line in heat.z] == [[98.0, 20.0], [None, 95.0]]  # rows d = 8, 32; columns p = 2, 4
    (heat,) = traces(figure, "dot", "heatmap")
    assert [list(line) for line in heat.z] == [[None, None], [99.0, None]]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 100)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("category", "category")  # tiles: there are holes
    figure = draw(whole(), "mean")["phase_mean_T32_L10"]
    (heat,) = traces(figure, "bos+sftm", "heatmap")
    assert [list(line) for line in heat.z] == [[98.0, 20.0], [50.0, 95.0]]
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_every_value_is_inside_the_borders_of_its_own_cell():
    from counting_interp.interp.sweep.grid import GRID

    borders = edges(GRID)
    assert len(borders) == len(GRID) + 1
    for place, value in enumerate(GRID):
        assert borders[place] < value < borders[place + 1]


def whole():
    """Two runs of every cell: no tiles."""
    other = [row(0, 50.0, 60.0, d=32, p=2), row(0, 20.0, 25.0, model="dot", d=32, p=4)]
    other += [row(0, 20.0, 25.0, model="dot", d=8, p=p) for p in (2, 4)]
    runs = [*grid(), *other]
    again = {run.cell for run in runs if run.run == 1}
    return [*runs, *(replace(run, job=replace(run.job, run=1)) for run in runs if run.cell not in again)]


def test_markers_sit_in_the_cells_they_belong_to():
    figure = draw(whole(), "mean")["phase_mean_T32_L10"]
    found = {
        (trace.name, model): [(d, p) for p, d in zip(trace.x, trace.y, strict=True)]
        for model in PANELS
        for trace in traces(figure, model, "scatter")
        if trace.mode == "markers" and trace.x != (None,)
    }
    assert found["a run reached 100 %", "bos+sftm"] == [(32, 4)]
    assert found["a run reached 99 %", "bos+sftm"] == [(8, 2)]
    assert found["a run reached 100 %", "dot"] == [(32, 2)]
    assert found["a run reached 99 %", "dot"] == []


@pytest.mark.parametrize("statistic", ["best", "std"])
def test_only_the_mean_is_marked(statistic):
    figure = draw(whole(), statistic)[f"phase_{statistic}_T32_L10"]
    drawn = [trace for trace in figure.data if trace.type == "scatter" and trace.x != (None,)]
    assert not [trace for trace in drawn if trace.mode == "markers"]
    assert "of 2 runs" in figure.layout.coloraxis.colorbar.title.text


def test_single_runs_are_tiles_with_their_numbers_and_are_called_so():
    runs = [run for run in whole() if run.run == 0]
    figure = draw(runs, "mean")["phase_mean_T32_L10"]
    (heat,) = traces(figure, "bos+sftm", "heatmap")
    assert heat.xgap > 0
    (numbers,) = [trace for trace in traces(figure, "bos+sftm", "scatter") if trace.mode == "text"]
    assert dict(zip(zip(numbers.y, numbers.x, strict=True), numbers.text, strict=True))["32", "4"] == "100"
    assert figure.title == "Accuracy after the last epoch, one run a cell"
    assert figure.layout.coloraxis.colorbar.title.text == "accuracy of one run a cell (%)"
    assert "mean" not in figure.caption.lower()
    assert not [trace for trace in figure.data if trace.name == "not trained"]  # nothing is missing


def test_a_tile_of_a_classified_run_shows_its_mechanism_and_the_others_their_accuracy():
    def judged(accuracy, label, **place):
        return row(0, accuracy, accuracy, measured={"verdict_mechanism": label}, **place)

    runs = [judged(99.5, "RC", d=8, p=2), judged(96.0, "IC", d=8, p=4), judged(60.0, "unsolved", d=32, p=2)]
    figure = draw([*runs, row(0, 99.0, 99.0, d=32, p=4)], "mean")["phase_mean_T32_L10"]
    (letters,) = [trace for trace in traces(figure, "bos+sftm", "scatter") if trace.mode == "text"]
    shown = dict(zip(zip(letters.y, letters.x, strict=True), letters.text, strict=True))
    assert shown == {("8", "2"): "<b>R</b>", ("8", "4"): "IC", ("32", "2"): "60", ("32", "4"): "99"}  # bold: 99 %
    inks = dict(zip(letters.text, letters.textfont.color, strict=True))
    assert (inks["<b>R</b>"], inks["IC"]) == (style.MECHANISMS["RC"].text, style.MECHANISMS["IC"].text)
    assert [trace.name for trace in figure.data if trace.showlegend] == ["R: RC", "IC"]
    assert "Letters: the mechanism" in figure.caption


def test_the_ends_of_a_difference_say_who_is_better_and_that_they_cut_off():
    runs = [row(0, 99.0, 99.0, d=8, p=2), row(0, 50.0, 60.0, d=8, p=2, n_layers=2)]
    figure = draw(runs, "difference")["difference_one_minus_two_layers_T32_L10"]
    lowest, _, highest = figure.layout.coloraxis.colorbar.ticktext
    assert (lowest, highest) == ("\N{MINUS SIGN}25<br>two layers better", "one layer better<br>+25 or more")


def test_lines_mark_the_alphabet():
    figure = draw([replace(run, job=replace(run.job, cell=replace(run.cell, T=15))) for run in whole()], "mean")
    lines = [
        trace
        for trace in traces(figure["phase_mean_T15_L10"], "dot", "scatter")
        if trace.mode == "lines" and trace.x != (None,)
    ]
    assert {tuple(trace.x) for trace in lines if trace.x[0] == trace.x[1]} == {(15, 15)}
    assert {tuple(trace.y) for trace in lines if trace.y[0] == trace.y[1]} == {(15, 15)}


def test_between_tiles_a_line_marks_the_alphabet_or_its_size_is_bold():
    between = draw(grid(T=15), "mean")["phase_mean_T15_L10"]
    lines = [shape for shape in between.layout.shapes if shape.xref == "x" or shape.yref == "y"]
    assert [(line.y0, line.y1) for line in lines] == [(0.5, 0.5)]  # between d = 8 and 32; all p are below 15
    assert (list(between.layout.yaxis.ticktext), between.layout.yaxis.tickvals[-1]) == (["8", "32", "<b>T</b>"], 0.5)
    bold = draw(grid(), "mean")["phase_mean_T32_L10"]
    assert not bold.layout.shapes
    assert list(bold.layout.yaxis.ticktext) == ["8", "<b>32</b>"]


def test_names_stand_beside_their_lines_where_no_other_line_is():
    steep = [(10, 20.0), (100, 99.0), (10_000, 99.0)]
    flat = [(10, 20.0), (120, 45.0), (5_000, 99.0), (10_000, 99.0)]
    places = label_positions({"steep": steep, "flat": flat}, {})
    assert places["steep"][2] == "right"  # left of the line, where nothing is
    assert places["steep"][0] == pytest.approx(2)
    assert places["flat"][0] == pytest.approx(log10(5_000))
    across = {"steep": [(10, 20.0), (90, 99.0)]}
    beside_a_hull = label_positions({"steep": steep, "flat": flat}, across)
    assert beside_a_hull["steep"][2] == "left"  # the hull runs on the other side
    together = {name: [(10, 20.0), (100 + 5 * i, 60.0), (1_000 * 9**i, 99.0)] for i, name in enumerate("ab")}
    assert all(level > 60 for _, level, _ in label_positions(together, {}).values())  # below, the lines run together


def test_best_and_scatter():
    figures = draw(grid())
    (heat,) = traces(figures["phase_best_T32_L10"], "bos+sftm", "heatmap")
    assert [list(line) for line in heat.z] == [[99.2, 25.0], [None, 100.0]]
    (heat,) = traces(figures["phase_std_T32_L10"], "bos+sftm", "heatmap")
    assert [value for line in heat.z for value in line if value is not None] == [pytest.approx(50**0.5)]  # has two runs
    first = next(csv.DictReader(figures["phase_mean_T32_L10"].to_csv().splitlines()))
    assert (first["model"], first["d"], first["p"], first["runs"]) == ("bos+sftm", "32", "4", "2")


@pytest.mark.parametrize(
    ("change", "name", "largest"),
    [({"frozen": True}, "learned_minus_random", 60), ({"n_layers": 2}, "one_minus_two_layers", 25)],
)
def test_differences_between_settings(change, name, largest):
    other = [row(0, 50.0, 60.0, d=32, p=4, **change)]
    figure = draw([*grid(), *other], "difference")[f"difference_{name}_T32_L10"]
    (heat,) = traces(figure, "bos+sftm", "heatmap")
    assert [list(line) for line in heat.z] == [[45.0]]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-largest, largest)
    assert "2 runs per cell minus one run per cell" in figure.caption
    assert figure.table == [
        {"model": "bos+sftm", "d": 32, "p": 4, "first": 95.0, "second": 50.0, "difference": 45.0},
    ]


def test_no_difference_without_a_partner():
    assert draw(grid(), "difference") == {}


def test_running_best_and_hull_by_hand():
    points = [(10, 20.0), (100, 40.0), (100, 30.0), (1000, 90.0), (10_000, 80.0)]
    assert running_best(points) == [(10, 20.0), (100, 40.0), (1000, 90.0), (10_000, 90.0)]
    assert upper_hull(points) == [(10, 20.0), (1000, 90.0)]  # on a log axis, (100, 40) lies under the straight line
    assert upper_hull([(10, 20.0), (100, 80.0), (1000, 90.0)]) == [(10, 20.0), (100, 80.0), (1000, 90.0)]
    assert running_best([]) == upper_hull([]) == []


def test_parameter_figure_has_runs_best_and_hull():
    figure = draw(grid(), "parameters")["parameters_T32_L10"]
    assert len(figure.data) == 3 * len(PANELS)
    assert len(figure.table) == 5
    assert list(figure.layout.yaxis.range) == [15, 105]


def test_parameter_figure_names_every_model_once():
    """One that the paper does not have, too; with and without softmax, a mixing has one entry."""
    models = ["dot", "dot+sftm", "dot+sftm+values", "bos"]
    figure = draw([row(0, 50.0, 60.0, model=model, d=8, p=4) for model in models], "parameters")["parameters_T32_L10"]
    told = [text.text for text in figure.layout.annotations if "softmax" not in text.text]
    assert sorted(told) == ["<b>bos</b>", "<b>dot+sftm+values</b>", "<b>dot</b>", "<b>dot</b>"]
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert len(points) == len(models)
    assert len({trace.marker.color for trace in points}) == 3


def test_where_one_run_has_no_scatter_the_legend_says_so():
    figures = draw(grid())
    assert "not trained, or one run only" in [trace.name for trace in figures["phase_std_T32_L10"].data]
    assert figures["phase_std_T32_L10"].caption.count("Grey: not trained, or one run only.") == 1
    assert "cells" in figures["phase_mean_T32_L10"].about
    assert "not trained" in [trace.name for trace in figures["phase_mean_T32_L10"].data]


@needs_browser
def test_on_a_page_grey_stays_grey_and_marks_stay_as_they_are_on_colours(tmp_path):
    """A page takes the colour of the reader's paper, but what a figure says with a colour it keeps."""
    (tmp_path / "table.csv").write_text(write_runs(whole()))
    run_interp("figures", "phase", tmp_path / "table.csv", "-o", tmp_path / "out", "--format", "html")
    with chromium(tmp_path / "profile") as page:
        for dark in (False, True):
            page.open(tmp_path / "out" / "phase_mean_T32_L10.html", dark=dark)
            assert page.evaluate("document.querySelector('[data-plot]')._fullLayout.plot_bgcolor") == (
                "#2f363f" if dark else NOT_TRAINED
            )
            named = "trace.name === 'a run reached 100 %' && trace.x[0] !== null"
            stars = f"document.querySelector('[data-plot]').data.filter((trace) => {named})"
            assert page.evaluate(f"{stars}.map((trace) => trace.marker.color)") == ["white"] * len(PANELS)
            page.open(tmp_path / "out" / "parameters_T32_L10.html", dark=dark)
            assert page.evaluate("document.querySelector('[data-plot]')._fullLayout.plot_bgcolor") == "rgba(0,0,0,0)"


def test_command_writes_pages_and_numbers(tmp_path):
    (tmp_path / "table.csv").write_text(write_runs(grid()))
    done = run_interp(
        "figures", "phase", tmp_path / "table.csv", "-o", tmp_path / "out", "--only", "mean,best", "--format", "html"
    )
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir() if not path.name.startswith("."))
    figures = [f"phase_{kind}_T32_L10.{ending}" for kind in ("best", "mean") for ending in ("csv", "html")]
    assert names == ["index.html", *figures, "plotly.min.js"]
    assert done.stdout.count("\n") == 6


def test_json_lists_each_figure_with_its_files(tmp_path):
    (tmp_path / "table.csv").write_text(write_runs(grid()))
    command = ("figures", "phase", tmp_path / "table.csv", "-o", tmp_path / "out", "--only", "mean", "--format", "html")
    document = json.loads(run_interp(*command, "--json").stdout)
    (figure,) = document["results"]
    assert (document["schema_version"], document["missing"], figure["figure"]) == (1, None, "phase_mean_T32_L10")
    assert figure["files"] == [str(tmp_path / "out" / f"phase_mean_T32_L10.{ending}") for ending in ("html", "csv")]


def test_command_refuses_what_it_does_not_know(tmp_path):
    (tmp_path / "table.csv").write_text(write_runs(grid()))
    assert run_interp("figures", "phase").returncode == 2
    done = run_interp("figures", "phase", tmp_path / "table.csv", "--only", "median", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "got 'median'" in done.stderr
    assert "difference" in run_interp("figures", "--list").stdout
