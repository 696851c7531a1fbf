"""The paper's figures: all of them, from the zoo, the constructions, and whatever sweeps there are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plotly.colors import unlabel_rgb

from counting_interp.data import language_models
from counting_interp.interp.figures import figures_of
from counting_interp.interp.figures.paper import PAPER, MissingDataError, Sources, draw, summary
from counting_interp.interp.figures.paper_panels import curves, spectra
from counting_interp.interp.figures.phase import sweep_figures
from counting_interp.interp.llm.result import answers_csv, read_evaluation
from counting_interp.interp.pages.export import write
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.models import CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import construct
from counting_interp.util.errors import InterpError
from scripts import figure_tables
from tests.helpers import run_interp
from tests.interp.browser import chromium, needs_browser
from tests.interp.figures.test_language_models import result
from tests.interp.sweep.test_table import row


def test_numbers_and_names_are_unique_and_complete() -> None:
    numbers = [int(figure.number.removeprefix("Fig ")) for figure in PAPER]
    assert sorted({*numbers, 7}) == list(range(1, 22))  # Fig. 7 is Fig. 6 for the second language model
    assert len({figure.name for figure in PAPER}) == len(PAPER)


@pytest.mark.parametrize("figure", PAPER, ids=lambda figure: figure.name)
def test_each_is_drawn_or_says_how_to_make_its_data(figure) -> None:
    if figure.name == "language-models" and not language_models():  # whose answers may not be bundled
        with pytest.raises(MissingDataError, match="interp llm --model"):
            list(draw(figure.name))
        return
    drawings = list(draw(figure.name))
    assert drawings
    for drawing in drawings:
        assert drawing.name.startswith(figure.number.replace(" ", ""))
        assert drawing.caption.startswith(figure.title)
        assert figure.note in drawing.caption
        assert drawing.table
        about = "smollm2" if figure.name == "language-models" else "T = "
        assert about in drawing.about  # what an image says above its drawing


def test_a_user_s_sweep_fills_the_gap(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("counting_interp.data.all_runs", list)
    table = tmp_path / "T15.csv"
    table.write_text(
        write_runs([row(0, 90.0, 95.0, model="dot", T=15), row(0, 80.0, 85.0, model="dot", T=15, epochs=9)])
    )
    sources = Sources([table])
    (drawing,) = draw("T15", sources)  # one budget, not two
    assert drawing.name == "Fig15-T15"
    with pytest.raises(MissingDataError, match="interp sweep run sweeps/T64 --preset T64"):
        list(draw("T64", sources))
    assert summary(1, ["Fig16-T64"], sources) == (
        "1 figures drawn, 1 missing (Fig16-T64; the files *-missing.txt say how to make them), from 2 runs"
    )


def test_partial_sweeps_leave_no_empty_panel(tmp_path) -> None:
    """Random embeddings without a cell in common with learned ones; two runs, hence a scatter, of one model only."""
    table = tmp_path / "some.csv"
    rows = [row(i, 90.0, 95.0, model="dot", T=15, d=8, p=8) for i in range(2)]
    rows += [row(0, 90.0, 95.0, model="lin", T=15, d=8, p=8), row(0, 50.0, 60.0, model="dot", T=15, d=16, frozen=True)]
    table.write_text(write_runs(rows))
    assert list(sweep_figures(read_runs(table), ["difference"])) == []
    (scatter,) = sweep_figures(read_runs(table), ["std"])
    assert [title.text for title in scatter.layout.annotations if "<b>" in title.text] == ["<b>dot</b>"]


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


@pytest.mark.parametrize("name", ["BOS-introspection", "softmax-introspection", "decreasing-d", "singular-values"])
def test_panels_do_not_overlap_and_can_be_stacked(name: str) -> None:
    """Every trace on axes of its own panel, and the page knows each panel's axes."""
    (figure,) = draw(name)
    boxes = set()
    for trace in figure.data:
        x, y = (figure.layout[f"{a}axis{getattr(trace, f'{a}axis')[1:]}"].domain for a in "xy")
        boxes.add((*x, *y))
    for i, (left, right, low, high) in enumerate(sorted(boxes)):
        for other in sorted(boxes)[i + 1 :]:
            assert right < other[0] or other[1] < left or high < other[2] or other[3] < low
    assert len(figure.layout.meta["stack"]) == len(boxes)
    assert figure.layout.width <= 720
    sizes = [note.font.size for note in figure.layout.annotations]
    assert min(sizes) * 0.75 * 6.75 * 96 / figure.layout.width >= 6  # points, at 6.75 inches


def test_the_shares_of_fig_3_are_those_of_its_matrix() -> None:
    (figure,) = draw("BOS-introspection")
    rows = [
        row for row in figure.table if row["panel"] == "b" and row["key_token"] == "$" and row["query_token"] == "B"
    ]
    (share,) = {round(row["pattern"], 6) for row in rows}
    lines = [shape.x0 for shape in figure.layout.shapes if shape.type == "line" and shape.x0 == shape.x1]
    assert any(abs(line - share) < 1e-4 for line in lines)


def test_fig_14_is_every_solved_run_that_is_wide_enough() -> None:
    rows = spectra()
    assert len(rows) >= 40
    assert all(min(row.d, row.p) >= 32 and row.accuracy >= 99 for row in rows)
    assert all(row.sigma[0] == 1 and list(row.sigma) == sorted(row.sigma, reverse=True) for row in rows)
    assert {len(row.sigma) == min(row.d, row.p) for row in rows} == {True}
    assert {row.model for row in rows} == set(VARIANTS)


def test_tables_of_checkpoints_are_made_from_a_sweep(tmp_path, monkeypatch) -> None:
    """Of a wide run at 99 % and one below it only the first has a spectrum; both lie on the sheet of lin+sftm."""
    runs = [row(0, 99.5, 99.5, model="lin+sftm", d=32, p=64), row(0, 60.0, 60.0, model="lin+sftm", d=32, p=32)]
    runs = [replace(run, checkpoint=f"{run.job.name}.pt") for run in runs]
    for run in runs:
        CountingTransformer(run.job.config()).save(tmp_path / run.checkpoint)
    monkeypatch.setattr(figure_tables, "read_runs", lambda folder: runs)
    assert figure_tables.make(tmp_path, tmp_path) == ("singular values of 1 runs, output curves of 2 of 49 cells")
    (spectrum,) = spectra(tmp_path / "spectra.csv")
    sigma = torch.linalg.svdvals(CountingTransformer(runs[0].job.config()).state_dict()["blocks.0.mlp.W_in"])
    assert spectrum.sigma == pytest.approx((sigma / sigma[0]).tolist(), abs=1e-3)
    curve = curves(tmp_path / "output-curves.csv")[0]
    assert all(low <= mean <= high <= 0 for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True))


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


@needs_browser
def test_on_a_phone_figures_fit_and_sheets_scroll_in_their_own_frame(tmp_path) -> None:
    names = ("step-function", "BOS-mixing", "two-layers-comparison")
    drawings = [drawing for name in names for drawing in draw(name)]
    write(drawings, tmp_path / "out", ["html"])
    with chromium(tmp_path / "profile") as page:
        page.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        for drawing in drawings:
            page.open(tmp_path / "out" / f"{drawing.name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, drawing.name
        bar = "[...document.querySelectorAll('.cbtitle, .cbaxis text')].map((text) => text.textContent).join(' ')"
        assert "one layer better" in page.evaluate(bar)  # both ends of the bar keep their words
        assert "two layers better" in page.evaluate(bar)


@needs_browser
def test_on_a_phone_in_the_dark_bars_lie_below_and_low_counts_are_seen(tmp_path) -> None:
    drawings = list(figures_of(construct("rc-bos+sftm", T=8, L=6), ["cue-conflict", "output-curves"]))
    write(drawings, tmp_path / "out", ["html"])
    with chromium(tmp_path / "profile") as page:
        page.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        page.open(tmp_path / "out" / "cue-conflict-1.html", dark=True)
        assert page.evaluate("document.querySelector('[data-plot]')._fullLayout.coloraxis.colorbar.orientation") == "h"
        page.open(tmp_path / "out" / "output-curves.html", dark=True)
        colour = page.evaluate("document.querySelector('[data-plot]').data[1].line.color")
        assert min(unlabel_rgb(colour)) > 100  # the scale begins with rgb(68, 1, 84), which a dark page swallows
