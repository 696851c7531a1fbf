"""Every notebook runs from top to bottom, without a network, and stays a story rather than a program."""

from __future__ import annotations

import ast
import os

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_tell_and_packages_compute(path) -> None:
    book = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in book.cells if cell.cell_type == "code")
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(functions) <= 2
    assert all(not cell.get("outputs") for cell in book.cells)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the kernel is a process of its own; what is left are Jupyter's own warnings
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PLOTLY_RENDERER", "json")
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(ROOT))
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": ROOT}}).execute()
