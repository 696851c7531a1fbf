"""The notebook widget: in a real JupyterLab, in a browser under a stand-in for it, and its Python side alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import counting_interp as ci
from counting_interp.interp.pages.widget import LiveWidget
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.util.errors import InterpError
from tests.interp.browser import Page, chromium, needs_browser

# What a notebook's front end hands to `render`: a model with the synced traits, and an element.
STAND_IN = """
window.figuresDrawn = (async () => {
  const source = document.getElementById("esm").textContent;
  const widget = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const state = JSON.parse(document.getElementById("state").textContent), listeners = {};
  window.saved = [];
  window.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; },
    save_changes: () => saved.push({ sequence: state.sequence, position: state.position }),
    on: (event, act) => { (listeners[event] ||= []).push(act); },
    off: (event, act) => { listeners[event] = listeners[event].filter((other) => other !== act); },
  };
  window.fromPython = (name, value) => { state[name] = value; listeners[`change:${name}`].forEach((act) => act()); };
  const el = document.createElement("div"); // Jupyter puts it into the page only afterwards
  window.cleanup = await widget.default.render({ model, el });
  document.getElementById("el").append(el);
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
})();
"""


def model(variant: str = "bos+sftm", **sizes: int) -> CountingTransformer:
    return CountingTransformer(CountingConfig.parse(variant, **{"T": 32, "L": 10, "d": 12, "p": 9, **sizes}))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(page: Page, folder: Path, widget: LiveWidget, background: str = "#ffffff") -> None:
    state = {"payload": widget.payload, "sequence": widget.sequence, "position": widget.position}
    (folder / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8><style>{widget._css}</style><body style='background:{background}'>"
        f"<p id=outside>outside</p><div id=el></div><script type=text/plain id=esm>{widget._esm}</script>"
        f"<script type=application/json id=state>{json.dumps(state)}</script><script>{STAND_IN}</script>",
        encoding="utf-8",
    )
    page.requests.clear()
    page.complaints.clear()
    page.open(folder / "notebook.html")


def spoken(page: Page) -> list[int]:
    text = page.evaluate("document.querySelector('.spoken').textContent")
    return [int(count) for count in text.removeprefix("Predicted counts: ").split(".")[0].split()]


@needs_browser
def test_what_is_typed_is_read_in_python_and_the_other_way_round(page: Page, tmp_path: Path) -> None:
    widget = LiveWidget(model())
    show(page, tmp_path, widget)
    assert spoken(page) == widget.predictions.tolist()

    page.set(".sequence", "AABBCCDDEE")
    page.evaluate("document.querySelectorAll('.tile')[4].click()")
    widget.set_state(page.evaluate("saved.at(-1)"))  # as the notebook's kernel hears it
    assert (widget.sequence, widget.position) == ("AABBCCDDEE", 4)
    assert spoken(page) == widget.predictions.tolist()
    shares = page.evaluate("[...document.querySelectorAll('.matrix td')].map((cell) => Number(cell.textContent))")
    assert torch.allclose(torch.tensor(shares) / 100, widget.attention.flatten(), atol=0.0051)  # whole percents

    widget.sequence = "ZZZZZZZZZf"
    widget.position = 9
    page.evaluate(f"fromPython('sequence', {json.dumps(widget.sequence)})")
    page.evaluate("fromPython('position', 9)")
    assert page.evaluate("document.querySelector('.sequence').value") == "ZZZZZZZZZf"
    assert page.evaluate("document.querySelector('.tile[aria-pressed=true] .token').textContent") == "f"
    assert spoken(page) == widget.predictions.tolist()
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "blob:"))] == []


@needs_browser
def test_half_a_sequence_is_not_sent(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, LiveWidget(model()))
    before = page.evaluate("saved.length")
    page.set(".sequence", "AAB")
    assert page.evaluate("saved.length") == before
    assert "10 tokens are needed" in page.evaluate("document.querySelector('.problem').textContent")


@needs_browser
@pytest.mark.parametrize(("background", "theme"), [("#ffffff", "light"), ("#111111", "dark")])
def test_it_is_light_or_dark_as_the_notebook_is_and_leaves_the_rest_alone(
    page: Page, tmp_path: Path, background: str, theme: str
) -> None:
    show(page, tmp_path, LiveWidget(model()), background)
    assert page.evaluate("document.querySelector('.counting-live').dataset.theme") == theme
    colours = page.evaluate(
        "['#outside', '.counting-live', '.tile'].map((s) => getComputedStyle(document.querySelector(s)).color)"
    )
    assert colours[0] == "rgb(0, 0, 0)"
    assert colours[1] == colours[2] == {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 233, 238)"}[theme]
    page.evaluate("document.body.style.background = 'rgb(120, 120, 120)'")  # the notebook's own theme is switched
    assert page.evaluate("document.querySelector('.counting-live').dataset.theme") == "dark"


@needs_browser
def test_a_view_that_is_closed_hears_no_more(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, LiveWidget(model()))
    page.evaluate("{ cleanup(); fromPython('sequence', 'AAAAAAAAAA'); }")
    assert page.evaluate("document.querySelector('.sequence').value") == "BBCBBBDEEE"


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[str]:
    """The address of a notebook with two cells in a JupyterLab that runs on this machine only."""
    pytest.importorskip("jupyterlab", reason="no JupyterLab (`pip install 'counting-interp[notebooks]'`)")
    cells = [
        "import counting_interp as ci\nwidget = ci.live('bos+sftm-d64-p64-proved')\nwidget",
        "print(widget.sequence, widget.position, widget.predictions.tolist(), widget.attention[0, 0, 1, :3])",
    ]
    code: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    document = {
        "cells": [{**code, "id": f"cell-{i}", "source": source} for i, source in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "live.ipynb").write_text(json.dumps(document))
    settings = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = {
        **{f"JUPYTER_{name}": str(tmp_path / name) for name in settings},
        "PYTHONPATH": str(Path(ci.__file__).parents[1]),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    options = (
        "--no-browser",
        "--ip=127.0.0.1",
        "--port=0",
        "--IdentityProvider.token=",
        "--allow-root",
        "--expose-app-in-browser",
    )
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *options],
            cwd=tmp_path / "home",
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"{server_address(tmp_path / 'RUNTIME_DIR', server)}lab/tree/live.ipynb"
    finally:
        server.kill()  # its kernel notices; asked to stop, a server waits for kernels that have not started
        server.wait()


def server_address(folder: Path, server: subprocess.Popen[bytes]) -> str:
    while server.poll() is None:
        for file in folder.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # it is being written
                return json.loads(file.read_text())["url"]
        time.sleep(0.1)
    raise AssertionError("JupyterLab did not start")


@needs_browser
@pytest.mark.slow
def test_it_runs_in_jupyterlab_and_python_reads_what_was_typed(notebook: str, page: Page) -> None:
    def run(cell: int) -> None:
        panel = "[...jupyterapp.shell.widgets('main')][0]"
        page.wait(f"{panel}.sessionContext.session.kernel.status === 'idle'")
        page.click(".jp-CodeCell .cm-content")
        page.wait("!!jupyterapp.shell.currentWidget")
        page.evaluate(f"{panel}.content.activeCellIndex = {cell}")
        page.evaluate("jupyterapp.commands.execute('notebook:run-cell')")

    page.complaints.clear()
    page.send("Emulation.setDeviceMetricsOverride", width=1400, height=1300, deviceScaleFactor=1, mobile=False)
    page.open(notebook)
    run(0)
    page.wait("!!document.querySelector('.counting-live .tile')")
    assert page.wait("document.querySelector('.counting-live').dataset.theme") == "light"

    page.click(".counting-live .sequence")
    page.press("a", modifiers=2)
    for letter in "AABBBCDDDf":
        page.press(letter)
    page.click(".counting-live .tile:nth-child(5)")
    for letter in "DD":  # in Jupyter they delete a cell
        page.press(letter)
    assert page.evaluate("document.querySelector('.counting-live .sequence').value") == "AABBDCDDDf"
    assert page.evaluate("document.querySelectorAll('.jp-CodeCell').length") == 2

    middle = page.point(".counting-live .bars .column")["x"]
    tip = page.evaluate("document.querySelector('.counting-live .tip').getBoundingClientRect().toJSON()")
    assert (tip["left"] + tip["right"]) / 2 == pytest.approx(middle, abs=2)  # though Jupyter moves its cells

    run(1)
    said = page.wait("document.querySelectorAll('.jp-CodeCell')[1].querySelector('.jp-OutputArea-output').innerText")
    assert said.startswith("AABBDCDDDf 4 [2, 2, 2, 2, 4, 1, 4, 4, 4, 1] tensor([")
    assert page.complaints == []


def test_sequences_are_text_numbers_or_tokens() -> None:
    widget = ci.live("bos+sftm-d64-p64-proved")
    assert widget.sequence == "BBCBBBDEEE"
    assert widget.predictions.tolist() == [5, 5, 1, 5, 5, 5, 1, 3, 3, 3]
    assert widget.attention.shape == (1, 1, 11, 11)
    heard = []
    widget.observe(lambda change: heard.append(change["new"]), "sequence")
    widget.sequence = [0, 0, 0, 1, 1, 1, 2, 2, 2, 31]
    widget.sequence = widget.tokens
    assert heard == ["AAABBBCCCf"]
    for wrong, words in (("BBCB", "L=10 tokens, got 4"), ("BBCBBBDEE?", "a sequence is letters")):
        with pytest.raises(ValueError, match=words):
            widget.sequence = wrong
    with pytest.raises(ValueError, match="positions are 0 to 9"):
        widget.position = 10
    assert widget.sequence == "AAABBBCCCf"


def test_small_and_large_alphabets_and_two_layers() -> None:
    assert LiveWidget(model("dot", T=4, L=4), "ABCA").sequence == "ABCA"
    widget = LiveWidget(model("lin", T=70, L=5, n_layers=2), [69, 69, 1, 2, 3])
    assert widget.sequence == "69 69 1 2 3"
    assert widget.attention.shape == (2, 1, 5, 5)


def test_what_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        config = None

    with pytest.raises(InterpError, match="counting transformers only"):
        ci.live(Other())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "counting_interp.interp.pages.widget")
    with pytest.raises(InterpError, match=r"anywidget is missing: pip install 'counting-interp\[notebooks\]'"):
        ci.live("bos+sftm-d64-p64-proved")
