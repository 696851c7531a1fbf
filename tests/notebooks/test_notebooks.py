"""Every notebook runs from top to bottom, without a network, and stays a story rather than a program."""

from __future__ import annotations

import ast
import platform
import re

import nbformat
import pytest

from notebooks.store_outputs import executed, tidied
from tests.helpers import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_six() -> None:
    assert len(NOTEBOOKS) == 6


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_begin_with_how_to_install_and_end_with_exercises(path) -> None:
    book = nbformat.read(path, as_version=4)
    assert book.cells[1].source.startswith("# %pip install")
    exercises = book.cells[-1].source
    assert "## Exercises" in exercises
    assert "<details><summary>Answers</summary>" in exercises
    numbers = re.findall(r"^(\d)\. ", exercises, re.M)
    assert numbers[: len(numbers) // 2] == numbers[len(numbers) // 2 :], "an answer for each"


def test_figures_survive_a_page_made_of_a_notebook() -> None:
    """`nbconvert --to html` shows HTML and pictures, and knows nothing of plotly's own format."""
    import plotly.io as pio

    import counting_interp as ci

    figure = ci.figure("spectrum", "bos-d45-p4-proved")
    before = pio.renderers.default
    try:
        pio.renderers.default = "plotly_mimetype"
        assert set(figure._repr_mimebundle_()) == {"application/vnd.plotly.v1+json", "text/html"}  # type: ignore[union-attr]
    finally:
        pio.renderers.default = before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_tell_and_packages_compute(path) -> None:
    book = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(functions) <= 2
    kinds = [cell.cell_type for cell in book.cells]
    assert all(kinds[i - 1] == "markdown" for i, kind in enumerate(kinds) if kind == "code"), "each step says why"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_can_be_read_where_they_are(path) -> None:
    """With their outputs, figures as pictures; small, without a mistake, and without a word about the machine."""
    book = nbformat.read(path, as_version=4)
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    assert all(output.get("name") != "stderr" for output in outputs)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 600_000
    assert not re.search(r"/(home|root|tmp|work|usr|var|Users|private)/", text)
    assert platform.node() not in text or len(platform.node()) < 4
    assert [cell.execution_count for cell in book.cells if cell.cell_type == "code"] == list(
        range(1, 1 + sum(cell.cell_type == "code" for cell in book.cells))
    ), "run `python notebooks/store_outputs.py` after a change"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the kernel is a process of its own; what is left are Jupyter's own warnings
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_what_is_stored_is_what_they_show(path) -> None:
    stored, fresh = nbformat.read(path, as_version=4), tidied(executed(path), picture=lambda figure: "a picture")
    for before, now in zip(stored.cells, fresh.cells, strict=True):
        assert [_kind(output) for output in before.get("outputs", ())] == [
            _kind(output) for output in now.get("outputs", ())
        ], now.source


def _kind(output: nbformat.NotebookNode) -> list[str]:
    return sorted(output.data) if "data" in output else [output.output_type]
