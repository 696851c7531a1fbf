"""`import counting_interp as ci`: what it has, and what comes of a name, a path or a mistake."""

from __future__ import annotations

import subprocess
import sys

import pytest

import counting_interp as ci
from counting_interp.data import zoo_path
from counting_interp.interp.proof import Certificate
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.files import OutputError
from tests.helpers import ROOT

NAME = "bos+sftm-d64-p64-proved"


def test_it_lists_what_is_public_and_nothing_else():
    assert dir(ci) == sorted(ci.__all__)
    assert all(getattr(ci, name) is not None for name in ci.__all__)
    with pytest.raises(AttributeError, match="it has Adapter"):
        ci.clasify  # noqa: B018


def test_importing_it_imports_nothing_heavy():
    code = "import counting_interp, sys; assert not {'torch', 'numpy', 'plotly', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_name_a_path_and_a_model_are_the_same():
    model = ci.load(NAME)
    assert ci.classify(NAME, quick=True).to_row() == ci.classify(zoo_path(NAME), quick=True).to_row()
    assert ci.classify(model, quick=True).mechanism == "RC"


def test_sequences_are_letters_numbers_or_tokens():
    model = ci.load(NAME)
    expected = [5, 5, 1, 5, 5, 5, 1, 3, 3, 3]
    for sequence in ("BBCBBBDEEE", [1, 1, 2, 1, 1, 1, 3, 4, 4, 4], model.to_tokens("BBCBBBDEEE")):
        assert model.predict(sequence).tolist() == expected
    assert model.to_str_tokens("BBCBBBDEEE") == tuple("BBCBBBDEEE")
    assert ci.probe("attention", NAME, sequence="BBCBBBDEEE").rows()


def test_results_show_themselves():
    model = ci.load(NAME)
    result = ci.probe("attention", model, sequence=[1, 1, 2, 1, 1, 1, 3, 4, 4, 4])
    assert len(repr(result)) < 200
    assert len(result.to_frame()) == 121
    assert result.plot().name == "attention-1"
    assert len(repr(ci.classify(model, quick=True))) < 200
    assert repr(ci.prove(model)).startswith("<certified in float32, counts 1..10: right on every sequence;")
    assert model("BBCBBBDEEE").shape == (10, 10)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: ci.classify(3), "a model is a bundled name, a path"),  # type: ignore[arg-type]
        (lambda: ci.probe("attention", NAME, sequence=[1, 2]), "L=10 tokens, got 2"),
        (lambda: ci.probe("attention", NAME, sequenc="B"), "no option 'sequenc'"),
        (lambda: ci.probe("attnetion", NAME), "did you mean attention"),
        (lambda: ci.figure("attentoin", NAME), "did you mean attention"),
        (lambda: ci.train("dot", epoch=3), "no 'epoch'; did you mean epochs"),
        (lambda: ci.live(NAME, "BBC"), "L=10 tokens, got 3"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(act, words):
    with pytest.raises((ValueError, InterpError), match=words):
        act()


def test_a_mistyped_name_gets_the_nearest():
    with pytest.raises(CheckpointError, match=r"bos\+sftm-d45-p2"):
        ci.load("bos-sftm-d45-p2")


def test_a_repair_ends_with_a_proof_and_writes_it_where_asked(tmp_path):
    model = ci.construct("rc-bos", T=4, L=3)  # right from the start, so no round is needed
    run = ci.repair(model)
    assert repr(run) == "<certified after 0 rounds: 12 of 12 cells proved, 0 wrong>"
    assert isinstance(ci.prove(run.model()), Certificate)
    ci.repair(model, path=tmp_path / "proved.pt")
    assert ci.prove(tmp_path / "proved.pt").verdict == "certified"
    with pytest.raises(InterpError, match="proved already"):
        ci.repair(model, path=tmp_path / "proved.pt")
    with pytest.raises(InterpError, match="a model is a bundled name"):
        ci.repair(3)


def test_a_report_on_names_files_and_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ci.construct("rc-dot", T=5, L=3)
    model.save("mine.pt")
    page = ci.report(["mine.pt", model, model]).read_text(encoding="utf-8")
    assert "How 3 checkpoints count" in page
    for title in ("mine.pt", "dot, not saved (2)", "dot, not saved (3)"):
        assert page.count(f"<h3>{title}</h3>") == 3
    ci.report("mine.pt", "report.html")  # replaces a report
    with pytest.raises(OutputError, match="one of the inputs"):
        ci.report("mine.pt", "mine.pt")


def test_samples_have_the_sizes_of_a_model():
    assert ci.sample(3, ci.construct("rc-dot", T=9, L=4)).shape == (3, 4)


@pytest.mark.slow
def test_it_trains_and_proves():
    tiny = ci.train("dot+sftm", T=6, L=4, d=8, p=8, epochs=1, sequences=320)
    assert (tiny.config.T, tiny.config.n_layers) == (6, 1)
    assert isinstance(ci.prove(ci.construct("rc-bos", T=8, L=5)), Certificate)
