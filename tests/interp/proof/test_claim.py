"""One claim for one model, wherever it is printed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.cli import app
from counting_interp.interp.pages.report import report_entry_of
from counting_interp.interp.proof import Certificate, prove
from counting_interp.interp.proof.checker.check import claim_sentence
from counting_interp.interp.proof.outcome import claimed_counts, saw_every_count
from counting_interp.interp.sweep.worker import Measuring, measure_model
from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import construct


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(params=["paper", "published"])
def model(request) -> CountingTransformer:
    built = construct("rc-bos", T=6, L=4)
    built.metadata["task"] = {"sampler": request.param}
    return built


def test_the_counts_are_those_that_training_showed(model):
    published = model.metadata["task"]["sampler"] == "published"
    assert claimed_counts(model) == (3 if published else 4)
    assert saw_every_count(model) is not published
    assert claimed_counts(model, 2) == 2
    assert prove(model).counts == claimed_counts(model)
    with pytest.raises(ValueError, match="max_count"):
        claimed_counts(model, 5)
    model.metadata["repair"] = {}
    assert claimed_counts(model) == 4


def test_verify_check_report_and_sweep_say_the_same(model, tmp_path):
    model.save(tmp_path / "model.pt")
    model = CountingTransformer.load(tmp_path / "model.pt")
    sentence = claim_sentence(6, 4, claimed_counts(model), "float32", "float32")
    outcome = prove(model)
    assert isinstance(outcome, Certificate)
    assert outcome.claim == sentence
    assert sentence in run("prove", tmp_path / "model.pt", "--certificate", tmp_path / "proof.json")
    assert sentence in run("check", tmp_path / "proof.json", tmp_path / "model.pt")
    assert json.loads((tmp_path / "proof.json").read_text())["counts"] == claimed_counts(model)
    assert sentence in report_entry_of(tmp_path / "model.pt", title="a model").verification
    measured = measure_model(model, Measuring(("proof",), 10.0))["proof"].row
    assert (measured["proof"], measured["counts"]) == ("certified", claimed_counts(model))


def test_what_is_proved_in_float64_only_says_so_and_is_not_proved_as_stored(tmp_path):
    arc = construct("rc-bos+sftm-arc", T=32, L=10, dtype="float32")
    outcome = prove(arc)
    assert isinstance(outcome, Certificate)
    assert outcome.precision == "float64"
    assert "The weights are float32; run in float32 it is not proved." in outcome.claim
    assert not isinstance(prove(arc, as_stored=True), Certificate)
    arc.save(tmp_path / "arc.pt")
    assert outcome.claim in run("prove", tmp_path / "arc.pt", "--certificate", tmp_path / "proof.json")
    assert outcome.claim in run("check", tmp_path / "proof.json", tmp_path / "arc.pt")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in zoo_names() if name.endswith("-proved")])
def test_every_bundled_model_called_proved_is_proved_as_it_is_stored(name, tmp_path):
    outcome = prove(CountingTransformer.load(zoo_path(name)), as_stored=True)
    assert isinstance(outcome, Certificate)
    assert outcome.counts == CountingTransformer.load(zoo_path(name)).config.L
    assert outcome.claim in run("prove", name, "--certificate", tmp_path / "proof.json")
    assert outcome.claim in run("check", tmp_path / "proof.json", name)
