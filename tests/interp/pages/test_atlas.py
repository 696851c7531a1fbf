"""The atlas in a real browser: one walk through a small one, and what a table alone gives."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from counting_interp.data import runs as runs_of
from counting_interp.interp.cli.pages import atlas
from counting_interp.interp.figures import style
from counting_interp.interp.pages import atlas as bundle
from counting_interp.interp.pages.atlas import Live, atlas_html, choose, load_live, packed
from counting_interp.interp.pages.live import rounded
from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.statistics import group_by_cell
from counting_interp.interp.sweep.table import RunRow, read_runs, write_runs
from counting_interp.models import CountingTransformer, task
from counting_interp.probes.designs import parse_sequence
from counting_interp.util.errors import InterpError
from tests.interp.browser import Page, chromium, needs_browser

HOSTILE = "</script><img src=x onerror=alert(1)>"


def run(model: str, d: int, p: int, number: int = 0, **measured: Any) -> RunRow:
    job = SweepJob(SweepCell(model, 32, 10, d, p, sampler="paper"), number)
    return RunRow(job, job.seed, 500, 99.5, 99.9, 0.1, 3.0, measured=measured)


def verdict(mechanism: str, rc: float, ic: float, **more: Any) -> dict[str, Any]:
    shares = {"RC": rc, "IC": ic, "gated": 1 - rc - ic}
    ends = {f"verdict_{name.lower()}{end}": value for name, value in shares.items() for end in ("", "_low", "_high")}
    return {
        "verdict_mechanism": mechanism,
        "verdict_accuracy": 0.97 if mechanism == "IC" else 0.99,
        **ends,
        "proof_share": 0.75,
        **more,
    }


RC, IC = verdict("RC", 0.98, 0.02), verdict("IC", 0.01, 0.77)
RUNS = [
    run("bos+sftm", 8, 2, **RC),
    run("bos+sftm", 8, 8, 0, **RC),
    run("bos+sftm", 8, 8, 1, **IC),
    run("bos+sftm", 8, 8, 2, **RC),
    run("bos+sftm", 4, 8),
    run("dot", 8, 4, **verdict("gated", 0.0, 0.0)),
]  # bos+sftm has no cell with p = 4: a walk from p = 2 leads to p = 8


def live_models() -> list[Live]:
    cells = list(group_by_cell(RUNS))[:2]
    return [Live(cell, "run 0 of this cell", 0, packed(CountingTransformer(cell.config(7)))) for cell in cells]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Any:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


def text(page: Page, selector: str) -> str:
    return page.evaluate(f"document.querySelector({selector!r}).textContent")


def show(page: Page, path: Path, address: str, **look: Any) -> None:
    page.requests.clear()
    page.evaluate("location.href = 'about:blank'")
    page.open(path, **look)
    page.evaluate(f"history.replaceState(null, '', {address!r}); window.dispatchEvent(new PopStateEvent('popstate'))")


@needs_browser
def test_a_walk_through_a_small_atlas(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "atlas.html"
    path.write_text(atlas_html(RUNS, live_models(), HOSTILE), encoding="utf-8")
    show(page, path, "#model=bos+sftm&d=8&p=2")

    # what is there, and what is not
    assert page.evaluate("[...document.querySelectorAll('.map-box h3')].map((h) => h.textContent)") == [
        "bos+sftm",
        "dot",
    ]
    assert page.evaluate("document.querySelectorAll('button.cell').length") == 3  # those of rows with a verdict
    assert page.evaluate("document.querySelectorAll('span.cell.empty').length") == 2 * 1 * 3 - 3
    told = page.evaluate("[...document.querySelectorAll('button.cell')].map((cell) => cell.textContent)")
    assert sorted(told) == ["G", "R", "Ri"]  # of three runs two are RC
    assert HOSTILE in text(page, "#about")
    assert text(page, "#cell h2") == "bos+sftm, d = 8, p = 2"
    assert "reads the count in the same way for every token" in text(page, ".says")
    assert "0.02 (0.02 to 0.02)" in text(page, ".answers")
    assert "Against it" not in text(page, ".verdict")
    colour = page.evaluate("document.querySelector('[aria-current].cell').style.background")
    assert [int(part) for part in re.findall(r"\d+", colour)] == [
        int(style.MECHANISMS["RC"].colour[i : i + 2], 16) for i in (1, 3, 5)
    ]

    # the model itself: torch's answer on the rounded weights, on a sequence that stays while walking
    assert "rounded to half precision" in text(page, "#live .note")
    page.set("#live input.sequence", "ABCABCAZZZ")
    for cell in list(group_by_cell(RUNS))[:2]:
        model = rounded(CountingTransformer(cell.config(7)))
        said = model.predict(parse_sequence("ABCABCAZZZ", model.config)).tolist()
        assert text(page, ".spoken").startswith(f"Predicted counts: {' '.join(map(str, said))}.")
        assert page.evaluate("document.querySelectorAll('#live .matrix td').length") == 11 * 11
        page.evaluate("document.activeElement.blur()")
        page.press("ArrowRight")

    # the address follows, and leads back
    page.press("ArrowLeft")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=8&p=2"
    page.press("ArrowRight")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=8&p=8"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "bos+sftm, d = 8, p = 8: 99.5 %"
    )
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert len(page.evaluate("[...document.querySelectorAll('#cell .summary tr')].map((r) => r.textContent)")) == 4
    page.evaluate("document.querySelectorAll('#cell .summary button')[1].click()")  # its second run
    assert "the MLP finds the token's share by itself" in text(page, ".says")
    assert "Against it:It errs at 3.0 % of positions" in text(page, ".verdict")
    page.evaluate("document.querySelectorAll('.map-box')[1].querySelector('button.cell').click()")
    assert page.evaluate("location.hash") == "#model=dot&d=8&p=4"
    assert text(page, ".chip") == "gated"
    assert "does not carry the weights" in text(page, "#live")
    page.evaluate("new Promise((done) => { window.addEventListener('popstate', done, {once: true}); history.back(); })")
    assert text(page, "#cell h2") == "bos+sftm, d = 8, p = 8"
    page.press("ArrowDown")  # no run with d = 4 is classified: this view has no such row
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=8&p=8"

    # views, hovering, a cell that is not there, a phone in the dark
    page.evaluate("document.querySelectorAll('#views button')[3].click()")
    page.press("ArrowDown")
    assert "was not classified" in text(page, "#cell")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=4&p=8&view=accuracy"
    assert page.evaluate("document.querySelectorAll('.cell.unknown').length") == 0
    page.evaluate("document.querySelector('button.cell').dispatchEvent(new Event('pointerover', {bubbles: true}))")
    assert text(page, "#maps .tip") == (
        "bos+sftm, d = 8, p = 2: 99.5 % right in 1 run; 1 RC; shares RC 0.98 (0.98 to 0.98), "
        "IC 0.02 (0.02 to 0.02), gated 0.00 (0.00 to 0.00); 75.0 % proved; runs in this page"
    )
    assert page.evaluate("[fixed(-0.004, 2), fixed(-0.04, 2), fixed(12, 0)]") == ["0.00", "-0.04", "12"]
    page.evaluate("document.querySelectorAll('#views button')[1].click()")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=4&p=8&view=shares"
    stacks = page.evaluate("[...document.querySelectorAll('button.cell')].map((cell) => cell.style.background)")
    assert "rgb(0, 114, 178) 0%, rgb(0, 114, 178) 98%" in stacks[0]  # RC 0.98, from the bottom
    page.evaluate("document.querySelectorAll('#views button')[2].click()")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=4&p=8&view=plane"
    whiskers = page.evaluate("[...document.querySelectorAll('.whiskers')].map((line) => line.getAttribute('d'))")
    assert len(whiskers) == 3
    assert re.match(r"M[\d.]+ [\d.]+H[\d.]+M[\d.]+ [\d.]+V[\d.]+$", whiskers[0])
    page.evaluate("document.querySelector('circle.dot').dispatchEvent(new Event('click', {bubbles: true}))")
    assert page.evaluate("location.hash") == "#model=bos+sftm&d=8&p=2&view=plane"
    place = "(({ cx, cy }) => [cx.baseVal.value, cy.baseVal.value])(document.querySelector('.dot[aria-current]'))"
    x, y = page.evaluate(place)
    assert (x - 38) / 320 * 1.2 - 0.1 == pytest.approx(0.98)
    assert (330 - y) / 320 * 1.2 - 0.1 == pytest.approx(0.02)
    page.evaluate("location.hash = '#model=bos+sftm&d=8&p=4&view=nonsense&p=%'")
    assert text(page, "#cell p") == "bos+sftm, d = 8, p = 4: no run."
    page.send("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    show(page, path, "#model=bos+sftm&d=8&p=8", dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "about:"))] == []


def test_a_table_alone_has_no_model_and_the_page_says_so(tmp_path: Path) -> None:
    table, page = tmp_path / "runs.csv", tmp_path / "atlas.html"
    table.write_text(write_runs(RUNS))
    atlas([table], page)
    atlas([table], page)  # its own page may be replaced
    assert '"live": 0' in page.read_text()
    with pytest.raises(InterpError, match="is one of the inputs"):
        atlas([table], table)
    empty = tmp_path / "empty.csv"
    empty.write_text(write_runs([]))
    with pytest.raises(InterpError, match="no finished run"):
        atlas([empty], tmp_path / "other.html")


def test_the_live_run_of_a_cell_counts_as_most_of_its_runs_and_the_coarse_grid_comes_first(tmp_path: Path) -> None:
    paths = {}
    for row in RUNS:
        paths[row.job.name] = tmp_path / f"{row.job.name}.pt"
        CountingTransformer(row.job.config()).save(paths[row.job.name])
    chosen = choose(RUNS, paths)
    assert [(row.cell.model, row.cell.d, row.cell.p, row.run) for row in chosen] == [
        ("bos+sftm", 8, 8, 0),
        ("bos+sftm", 4, 8, 0),
        ("dot", 8, 4, 0),
        ("bos+sftm", 8, 2, 0),
    ]
    alone = len(atlas_html(RUNS, [], "here"))
    room = len(next(load_live(chosen, paths)).payload) + 500  # for one, and for saying where it is
    page = atlas_html(RUNS, load_live(chosen, paths), "here", alone + room)
    assert page.count('id="live-') == 1
    assert len(page) <= alone + room
    with pytest.raises(InterpError, match="make one of fewer sweeps"):
        atlas_html(RUNS, [], "here", alone - 1)
    paths[chosen[0].job.name].write_text("no checkpoint")
    CountingTransformer(chosen[2].job.config()).save(paths[chosen[1].job.name])  # another run's model
    assert [live.cell for live in load_live(chosen, paths)] == [row.cell for row in chosen[2:]]


@needs_browser
def test_several_settings_on_one_page(page: Page, tmp_path: Path) -> None:
    """One has proofs and models in the page, the other neither. An address may name what a setting does not have."""
    other = [replace(one, job=replace(one.job, cell=replace(one.cell, n_layers=2))) for one in RUNS[:2]]
    bare = {
        name: value
        for name, value in RC.items()
        if not name.startswith(("proof_", "verdict_rc", "verdict_ic", "verdict_gated"))
    }
    other = [replace(one, measured=bare) for one in other]
    path = tmp_path / "atlas.html"
    path.write_text(atlas_html([*RUNS, *other], live_models(), "here"), encoding="utf-8")
    show(page, path, "#view=proof")
    assert "2 models run in this page" in text(page, "#about")
    page.set("#settings select", "T32_L10_layers2_paper", "change")
    assert page.evaluate("document.querySelectorAll('button.cell').length") == 2
    assert "None of these models runs in this page; 2 of other settings do." in text(page, "#about")
    assert page.evaluate("document.querySelectorAll('.cell.unknown').length") == 0  # without proofs: the mechanism
    assert page.evaluate("document.querySelector('[aria-pressed=true]').textContent") == "Mechanism"
    assert "shares" not in page.evaluate("document.querySelector('button.cell').getAttribute('aria-label')")
    for view in ("constructor", "toString", "__proto__"):
        show(page, path, f"#view={view}&model=dot&d=8&p=4")
        assert page.evaluate("document.querySelector('[aria-pressed=true]').textContent") == "Mechanism"
        assert "RC" in text(page, "#legend")
    assert page.complaints == []


def test_a_label_that_is_none_is_no_verdict(tmp_path: Path) -> None:
    odd = run("dot", 8, 4, **{**RC, "verdict_mechanism": "odd"})
    assert '"classified": 0' in atlas_html([odd], [], "here")


def test_the_bundled_atlas_runs_bundled_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "atlas.html"
    atlas(output=page, json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["atlas"], said["runs"] > 2_000) == (str(page), True)
    assert page.stat().st_size < 8_000_000
    assert page.read_text().count('id="live-') > 40


def test_what_is_bundled_says_what_it_is() -> None:
    """Budget and sampler of every run, and of each classified one the version that did it. The models count as their
    rows say."""
    runs = [one for one in read_runs(runs_of("fig1")) if "verdict_mechanism" in one.measured]
    assert len(runs) > 100
    for one in runs:
        assert (one.cell.epochs, one.cell.sampler) == (500, "published")
        assert "verdict_version" in one.measured
    assert bundle.WEIGHTS.stat().st_size < 2_000_000
    rows: dict[tuple[SweepCell, int | None], RunRow] = {(one.cell, one.run): one for one in runs}
    for shown in list(bundle.bundled(runs))[::20]:
        payload = json.loads(shown.payload)
        weights = {
            name: torch.frombuffer(bytearray(base64.b64decode(packed["base64"])), dtype=torch.float16)
            .reshape(packed["shape"])
            .float()
            for name, packed in payload["weights"].items()
        }
        model = CountingTransformer(shown.cell.config(0), weights)
        tokens = task.sample("published", 500, T=shown.cell.T, L=shown.cell.L, generator=0)
        accuracy = 100 * float((model.predict(tokens) == model.truth(tokens)).double().mean())
        assert accuracy == pytest.approx(rows[shown.cell, shown.run].final, abs=4)


def test_a_bundle_is_made_from_a_classified_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From rows and checkpoints as a sweep's folder has them; the weights come back rounded."""
    rows = [replace(row, checkpoint=f"{row.job.name}.pt") for row in RUNS]
    for row in rows:
        CountingTransformer(row.job.config()).save(tmp_path / row.checkpoint)
    monkeypatch.setattr(bundle, "read_runs", lambda folder: rows)
    monkeypatch.setattr(bundle, "WEIGHTS", tmp_path / "w.safetensors")
    assert bundle.make(tmp_path) == 3  # of four cells; the runs of one are not classified
    first = next(bundle.bundled(rows))
    assert first.payload == packed(rounded(CountingTransformer(rows[0].job.config())))
