"""The report in a real browser: loads from disk, asks nothing of the network, runs the model, and keeps names inert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import plotly.graph_objects as go
import pytest
import torch

from counting_interp.interp.figures import figures_of
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.pages.report import ReportEntry, report_entry_of, report_html, titles
from counting_interp.interp.verdict import Mechanism, Verdict
from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.constructions import construct
from counting_interp.probes.shares import Estimate
from tests.helpers import small_block
from tests.interp.browser import Page, chromium, needs_browser

HOSTILE = "</script><img src=x onerror=alert(1)>"
EXAMPLE = torch.tensor([1, 1, 2, 1, 1, 1, 3, 4, 4, 4])


def subject(variant: str = "bos+sftm", title: str = "ckpt.pt", **sizes) -> ReportEntry:
    model = CountingTransformer(CountingConfig.parse(variant, **{"T": 32, "L": 10, "d": 12, "p": 9, **sizes}))
    model.metadata["assumed"] = [HOSTILE]
    figure = go.Figure(go.Bar(x=[HOSTILE, "b"], y=[1, 2]), layout={"title": HOSTILE})
    drawing = Figure(figure, name="bars", caption=HOSTILE, table=[])
    shares = tuple(Estimate(name, value, 0.0, 1.0) for name, value in (("RC", 1.0), ("IC", 0.0), ("gated", 0.0)))
    verdict = Verdict(Mechanism.RC, shares, 0.5, "paper", reason=HOSTILE, spec=model.config)
    return ReportEntry(title, title, model, verdict, HOSTILE, [drawing], "2025-01-01", HOSTILE)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(page: Page, folder: Path, *subjects: ReportEntry, dark: bool = False) -> float:
    target = folder / "report.html"
    target.write_text(report_html(subjects), encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    return page.open(target, dark=dark)


def drag(page: Page, selector: str, x: float, y: float, *, touch: bool = False) -> None:
    """Press in the middle of a drawing and drag to (x, y), in parts of its width and height."""
    box = page.evaluate(
        f"(() => {{ const one = document.querySelector('{selector}'); one.scrollIntoView({{ block: 'center' }});"
        "const { left, top, width, height } = one.getBoundingClientRect(); return [left, top, width, height]; })()"
    )
    ends = [(box[0] + box[2] * at[0], box[1] + box[3] * at[1]) for at in ((0.5, 0.5), (x, y))]
    if touch:
        for kind, end in (("touchStart", ends[0]), ("touchMove", ends[1])):
            page.send("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": end[0], "y": end[1]}])
        page.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        return
    for kind, end in (("mousePressed", ends[0]), ("mouseMoved", ends[1]), ("mouseReleased", ends[1])):
        page.send("Input.dispatchMouseEvent", type=kind, x=end[0], y=end[1], button="left", buttons=1, clickCount=1)


def spoken(page: Page, index: int = 0) -> list[int]:
    text = page.evaluate(f"document.querySelectorAll('.spoken')[{index}].textContent")
    return [int(count) for count in text.removeprefix("Predicted counts: ").split(".")[0].split()]


@needs_browser
def test_loads_from_disk_alone_and_without_complaint(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, subject())
    assert page.complaints == []
    outside = [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
    assert page.evaluate("document.querySelectorAll('.plot .main-svg').length") > 0


@needs_browser
@pytest.mark.parametrize("variant", ["lin", "dot+sftm", "bos", "bos+sftm"])
def test_typing_a_sequence_gives_torch_s_prediction(page: Page, tmp_path: Path, variant: str) -> None:
    one = subject(variant)
    show(page, tmp_path, one)
    assert spoken(page) == one.model.predict(EXAMPLE).tolist()
    for tokens in task.sample("paper", 5, T=26, L=10, generator=0):
        text = "".join(chr(65 + int(token)) for token in tokens)
        page.set(".sequence", text)
        assert spoken(page) == one.model.predict(tokens).tolist()
    assert page.complaints == []


@needs_browser
def test_bad_input_is_explained_and_no_answer_to_another_sequence_is_shown(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, subject())
    before = spoken(page)
    for text, words in (("BBB", "10 tokens are needed, 3 are here."), ("B?CBBBDEEE", "Tokens are A to Z, a to f")):
        page.set(".sequence", text)
        assert words in page.evaluate("document.querySelector('.problem').textContent")
        assert page.evaluate("document.querySelector('.spoken').textContent") == ""
        assert page.evaluate("document.querySelectorAll('.stale').length") == 2
    page.set(".sequence", "BBCBBBDEEE")
    assert spoken(page) == before
    assert page.evaluate("document.querySelectorAll('.stale').length") == 0


@needs_browser
def test_a_weight_is_taken_away_by_a_click_and_put_back(page: Page, tmp_path: Path) -> None:
    one = subject("bos+sftm")
    show(page, tmp_path, one)
    before = spoken(page)
    model = one.model
    assert isinstance(model, CountingTransformer)

    def without(pattern, hook):  # from the first token to $, the others in proportion
        changed = pattern.clone()
        changed[:, :, 1] = changed[:, :, 1] / (1 - changed[:, :, 1, :1])
        changed[:, :, 1, 0] = 0
        return changed

    logits = model.run_with_hooks(EXAMPLE[None], fwd_hooks=[("blocks.0.attn.hook_pattern", without)])
    page.evaluate("document.querySelectorAll('.matrix tr')[2].querySelectorAll('td')[0].click()")
    assert spoken(page) == (logits.argmax(-1)[0] + 1).tolist()
    assert "0 instead of" in page.evaluate("document.querySelector('.edited .answer').textContent")
    page.evaluate("[...document.querySelectorAll('.edited button')].at(-1).click()")
    assert spoken(page) == before
    assert page.complaints == []


@needs_browser
@pytest.mark.parametrize("touch", [False, True])
def test_the_weight_of_bos_is_dragged_and_the_answer_follows(page: Page, tmp_path: Path, touch: bool) -> None:
    one = replace(subject(), model=construct("rc-bos+sftm", T=32, L=10))
    show(page, tmp_path, one)
    model = one.model
    assert isinstance(model, CountingTransformer)
    drag(page, ".edited .curve", 0.9, 0.5, touch=touch)
    weight = page.evaluate("document.querySelector('[data-live]').panel.edit.weight")
    assert abs(weight - (0.9 * 320 - 24) / 288) < 0.01  # a pixel

    def put(pattern, hook):
        changed = pattern.clone()
        changed[:, :, 1] *= (1 - weight) / (1 - changed[:, :, 1, :1])
        changed[:, :, 1, 0] = weight
        return changed

    logits = model.run_with_hooks(EXAMPLE[None], fwd_hooks=[("blocks.0.attn.hook_pattern", put)])
    assert spoken(page) == (logits.argmax(-1)[0] + 1).tolist()
    assert spoken(page)[0] != 5
    # upright lines stand where the model itself puts the weight, for each count
    ticks = page.evaluate("document.querySelector('[data-live]').panel.attention.behind.ticks")
    for share, count in ticks:
        tokens = torch.tensor([token for token in range(32) if token != 1][: 10 - int(count)] + [1] * int(count))
        _, cache = model.run_with_cache(tokens[None])
        assert abs(share - float(cache["pattern", 0][0, 0, 10, 0])) < 1e-5


@needs_browser
def test_a_token_dims_all_but_its_row_or_column(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, subject("lin"))
    lit = (
        "[...document.querySelectorAll('.matrix td:not(.dim)')].map((cell) => [+cell.dataset.query, +cell.dataset.key])"
    )
    assert len(page.evaluate(lit)) == 100
    for selector, axis in (("th[data-query='3']", 0), ("th[data-key='3']", 1)):
        page.evaluate(f'document.querySelector("{selector}").click()')  # as a finger does
        assert {cell[axis] for cell in page.evaluate(lit)} == {3}
        page.evaluate(f'document.querySelector("{selector}").click()')
        assert len(page.evaluate(lit)) == 100


@needs_browser
def test_the_next_wrong_one_is_wrong(page: Page, tmp_path: Path) -> None:
    press = "[...document.querySelectorAll('.offer')].find((one) => one.textContent === 'next wrong one').click()"
    show(page, tmp_path, subject())
    page.evaluate(press)
    assert "are wrong." in page.evaluate("document.querySelector('.spoken').textContent")
    show(page, tmp_path, replace(subject(), model=construct("rc-bos+sftm", T=32, L=10)))
    page.evaluate(press)
    assert "random sequences is counted wrong" in page.evaluate("document.querySelector('.problem').textContent")
    assert "All are right." in page.evaluate("document.querySelector('.spoken').textContent")


@needs_browser
def test_one_figure_is_open_and_the_others_are_drawn_when_they_are_opened(page: Page, tmp_path: Path) -> None:
    one = subject()
    names = ["confusion", "cue-conflict-1", "overlap"]
    figures = [Figure(go.Figure(go.Bar(x=[1], y=[2])), name=name, caption="", table=[]) for name in names]
    show(page, tmp_path, replace(one, drawings=figures))
    drawn = "[...document.querySelectorAll('.plot:has(.main-svg)')].map((plot) => plot.dataset.plot)"
    assert page.evaluate(drawn) == ["figure-0-cue-conflict-1-data"]
    page.evaluate("new Promise((done) => { const one = [...document.querySelectorAll('details')].at(-1);"
                  "one.addEventListener('toggle', done); one.open = true; })")  # fmt: skip
    assert page.evaluate(drawn) == ["figure-0-cue-conflict-1-data", "figure-0-overlap-data"]


def test_a_block_that_no_page_can_run_gets_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counting_interp.interp.pages.live.PAPER_MIXINGS", ("lin", "dot"))
    html = report_html([subject("bos+sftm", title="one"), subject("lin", title="two")])
    assert "Not live: a page computes the mixers lin, dot; this model has bos." in html
    assert 'data-live="model-0"' not in html
    assert 'data-live="model-1"' in html
    assert 'data-plot="figure-0-bars-data"' in html


def test_a_sample_without_a_mistake_is_not_called_100_percent() -> None:
    one = subject()
    html = report_html([replace(one, verdict=replace(one.verdict, accuracy=1.0))], [subject()])
    said = re.findall(r"[^<>]*9 %|[^<>]*100 %", html[: html.index("<script")])
    assert len(said) == 3  # in the table, on the card, in the evidence
    assert all(text.endswith("&gt; 99.9 %") for text in said)


@needs_browser
def test_heads_are_named_and_chosen_and_a_known_wrong_sequence_is_offered(page: Page, tmp_path: Path) -> None:
    wrong = [5] * 10
    proof: Any = SimpleNamespace(verdict="refuted", sequence=wrong)
    one = replace(subject("bos+sftm+values+2heads"), proof=proof)
    show(page, tmp_path, one)
    names = page.evaluate("[...document.querySelectorAll('.thumb')].map((thumb) => thumb.textContent)")
    assert names == ["mean of all heads", "head 0", "head 1"]
    cell = "document.querySelectorAll('.matrix tr')[2].querySelectorAll('td')[1].textContent"
    page.evaluate("document.querySelectorAll('.thumb')[2].click()")
    _, cache = one.model.run_with_cache(EXAMPLE[None])
    assert page.evaluate(cell) == str(round(100 * float(cache["pattern", 0][0, 1, 1, 1])))
    assert "a wrong sequence is known" in page.evaluate("document.querySelector('.proof').textContent")
    page.evaluate(
        "[...document.querySelectorAll('.offer')].find((one) => one.textContent === 'counterexample').click()"
    )
    assert page.evaluate("document.querySelector('.sequence').value") == "FFFFFFFFFF"
    assert spoken(page) == one.model.predict(torch.tensor(wrong)).tolist()


@needs_browser
def test_on_a_phone_nothing_is_wider_than_the_screen_and_panels_stand_below_each_other(
    tmp_path: Path, page: Page
) -> None:
    (figure,) = figures_of(construct("rc-bos+sftm", T=8, L=6), ["bos-share"])
    page.send("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    try:
        show(page, tmp_path, replace(subject(), drawings=[figure]), replace(subject("lin"), drawings=[figure]))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        domains = page.evaluate(
            "(({ xaxis, xaxis2, yaxis, yaxis2 }) => [xaxis.domain, xaxis2.domain, yaxis.domain, yaxis2.domain])"
            "(document.querySelector('.plot').layout)"
        )
        assert domains[0] == domains[1] == [0, 1]
        assert domains[2][0] > domains[3][1]  # the first above the second
    finally:
        page.send("Emulation.clearDeviceMetricsOverride")


@needs_browser
def test_the_keyboard_moves_and_changes_tokens(page: Page, tmp_path: Path) -> None:
    one = subject()
    show(page, tmp_path, one)
    page.evaluate("document.querySelector('.tile').focus()")
    page.press("ArrowRight")
    page.press("ArrowUp")
    page.press("ArrowRight")
    page.press("H")
    expected = EXAMPLE.clone()
    expected[1], expected[2] = 2, 7
    assert page.evaluate("document.querySelector('.sequence').value") == "BCHBBBDEEE"
    assert spoken(page) == one.model.predict(expected).tolist()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("position 3: H")


@needs_browser
def test_dragging_runs_the_feed_forward_layer_alone(page: Page, tmp_path: Path) -> None:
    one = subject()
    model = one.model
    assert isinstance(model, CountingTransformer)
    show(page, tmp_path, one)
    text = "document.querySelector('.isolation .answer.{}').textContent"
    for x in (0.0, 0.37, 1.0):
        drag(page, ".isolation .curve", (24 + 288 * x) / 320, 0.5)
        alpha = page.evaluate("document.querySelector('[data-live]').panel.mixtures.alpha")
        assert abs(alpha - x) < 0.01  # a pixel
        logits = model.blocks[0].mlp(alpha * model.W_E[32] + (1 - alpha) * model.W_E[3] + model.W_E[1])
        first, second = (logits.topk(2).indices + 1).tolist()
        said = page.evaluate(text.format("two"))
        assert f"it says {first} (" in said
        assert f"then {second} (" in said
    drag(page, ".triangle", 0.4, 0.7)
    weights = page.evaluate("document.querySelector('[data-live]').panel.mixtures.weights")
    assert all(weight > 0.1 for weight in weights)
    mixed = sum(weight * model.W_E[token] for weight, token in zip(weights, (32, 3, 2), strict=True))
    expected = int(model.blocks[0].mlp(mixed + model.W_E[1]).argmax()) + 1
    assert f"it says {expected} (" in page.evaluate(text.format("three"))


@needs_browser
def test_the_swap_says_what_the_hooked_swap_says(page: Page, tmp_path: Path) -> None:
    one = subject("dot")
    model = one.model
    assert isinstance(model, CountingTransformer)
    show(page, tmp_path, one)
    page.set(".swap select", 4, "change")
    _, cache = model.run_with_cache(EXAMPLE)
    mixed = cache["resid_mid", 0][0, 0] + (1 + cache["pattern", 0][0, 0, 0, 0]) * (model.W_E[4] - model.W_E[1])
    expected = int(model.blocks[0].mlp(mixed).argmax()) + 1
    text = page.evaluate("document.querySelector('.swap .answer').textContent")
    assert f"Given E (3 times), it says {expected}:" in text


@needs_browser
@pytest.mark.parametrize(
    ("name", "says"),
    [("rc-dot", "it says 5: it counts B"), ("ic-lin", "it says 4: it counts E"), ("ic-dot-compact", "neither of them")],
)
def test_the_swap_says_whom_the_model_counts(page: Page, tmp_path: Path, name: str, says: str) -> None:
    """B stands five times in the example, E three times; an inventory counts the swapped place as one more E."""
    show(page, tmp_path, replace(subject(), model=construct(name)))
    page.set(".swap select", 4, "change")
    assert says in page.evaluate("document.querySelector('.swap .answer').textContent")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_names_from_strangers_are_inert(page: Page, tmp_path: Path, dark: bool) -> None:
    show(page, tmp_path, subject(title=HOSTILE), subject("lin", title="b" + HOSTILE), dark=dark)
    assert page.complaints == []
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.querySelector('.name').textContent") == HOSTILE
    assert page.evaluate("document.querySelectorAll('[data-live] .tile').length") == 20


@needs_browser
def test_two_layers_and_large_alphabets(page: Page, tmp_path: Path) -> None:
    one = subject("bos", T=70, L=12, n_layers=2)
    show(page, tmp_path, one)
    tokens = task.sample("paper", 1, T=70, L=12, generator=3)[0]
    text = " ".join(str(int(token)) for token in tokens)
    page.set(".sequence", text)
    assert spoken(page) == one.model.predict(tokens).tolist()
    assert page.complaints == []


def test_the_page_names_no_outside_address_and_stays_small() -> None:
    html = report_html([subject(), subject("lin", d=128, p=128, T=64)])
    ours = re.sub(r"<script>/\*\*\n\* plotly\.js.*?</script>", "", html, flags=re.S)
    assert len(ours) < len(html) - 1_000_000  # plotly.js was there once and is left out of the search
    assert ours.count("plotly.js v") == 0
    assert "http://" not in ours.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in ours
    assert len(html.encode()) < 8_000_000


@needs_browser
def test_one_sequence_is_typed_once_for_all_models(page: Page, tmp_path: Path) -> None:
    both = subject(), subject("lin")
    show(page, tmp_path, *both)
    page.set("[data-shared] .sequence", "AABBCCDDEE")
    tokens = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    for index, one in enumerate(both):
        assert spoken(page, index) == one.model.predict(tokens).tolist()
    page.set("[data-shared] .sequence", "AB")
    assert "10 tokens are needed" in page.evaluate("document.querySelector('[data-shared] .problem').textContent")


@needs_browser
def test_the_page_s_own_rules_leave_plotly_s_drawings_alone(page: Page, tmp_path: Path) -> None:
    """A rule for every `text` of every svg once moved the legends and ticks of all figures."""
    show(page, tmp_path, subject())
    anchors = page.evaluate(
        "[...document.querySelectorAll('.plot .ytick text')].map((text) => getComputedStyle(text).textAnchor)"
    )
    assert anchors
    assert set(anchors) == {"end"}
    assert page.evaluate("getComputedStyle(document.querySelector('.bars text')).textAnchor") == "middle"


def test_many_checkpoints_stand_in_a_table_and_only_some_are_shown() -> None:
    html = report_html([subject(title="one.pt")], [subject(title=f"other-{i}.pt") for i in range(26)])
    assert html.count("<tr>") >= 27
    assert "How 27 checkpoints count" in html
    assert html.count('data-live="model-') == 1


def test_titles_are_as_short_as_they_can_be() -> None:
    assert titles([Path("a/x.pt"), Path("a/y.pt")]) == ["x.pt", "y.pt"]
    assert titles([Path("run/a/x.pt"), Path("run/b/x.pt")]) == ["a/x.pt", "b/x.pt"]


def test_a_block_beyond_the_paper_s_has_a_report(tmp_path):
    path = tmp_path / "block.pt"
    small_block("bos+sftm+values+2heads+norm+gelu+positions+causal").save(path)
    subject = report_entry_of(path, title="block.pt")
    assert subject.verification.startswith("not possible: this is derived for the paper's blocks")
    assert {drawing.name for drawing in subject.drawings} >= {"overlap", "spectrum-1", "confusion"}
    page = report_html([subject])
    assert "pos_embed.W_pos" in page
    assert page.count("The two transplants: relation and inventory") == 1
