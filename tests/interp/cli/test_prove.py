"""`interp prove`: verdicts, exit codes, and bad files between good ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.models import task
from counting_interp.models.constructions import construct
from tests.helpers import small_model
from tests.interp.proof.examples import behind_identity


def run(*arguments: object):
    return CliRunner().invoke(app, ["prove", *map(str, arguments)])


def documents(*arguments: object) -> list[dict]:
    document = json.loads(run(*arguments, "--json").stdout, parse_constant=pytest.fail)
    assert document["schema_version"] == 1
    return document["results"]


@pytest.fixture
def right(tmp_path) -> Path:
    construct("rc-bos", T=6, L=5).save(tmp_path / "right.pt")
    return tmp_path / "right.pt"


@pytest.fixture
def wrong(tmp_path) -> Path:
    small_model("dot+sftm", dtype="float32").save(tmp_path / "wrong.safetensors")
    return tmp_path / "wrong.safetensors"


@pytest.fixture
def bad(tmp_path) -> Path:
    (tmp_path / "bad.pt").write_bytes(b"PK nonsense")
    return tmp_path / "bad.pt"


def test_a_certificate_shows_its_margins_and_intervals(right):
    result = run(right)
    assert result.exit_code == 0
    assert "right.pt: certified" in result.stdout
    assert "the true count has the strictly highest logit. This holds in real numbers and in float32." in result.stdout
    assert [line.split()[1] for line in result.stdout.splitlines() if line.startswith("    count")] == list("12345")
    (document,) = documents(right)
    assert document["verdict"] == "certified"
    assert document["precision"] == "float32"
    assert document["share"] == 1
    assert 0 < document["rounding"] < document["proved_margin"] <= document["margin"]
    assert all(entry["low"] <= entry["high"] for entry in document["margins"])


def test_a_refutation_can_be_repeated_by_hand(wrong):
    result = run(wrong)
    assert result.exit_code == 1
    (document,) = documents(wrong)
    tokens = torch.tensor(document["sequence"])
    model = small_model("dot+sftm", dtype="float32")
    assert model.predict(tokens).tolist() == document["answers"]
    assert task.histogram(tokens).tolist() == document["true_counts"]
    assert document["answers"][document["position"]] == document["answer"] != document["count"]
    assert " ".join(task.letter(token, -1) for token in document["sequence"]) in result.stdout
    assert f"tokens    {task.in_words(document['sequence'])}" in result.stdout


def test_several_files_get_a_line_each_and_a_bad_one_does_not_stop_the_rest(right, wrong, bad):
    assert run(right, wrong).exit_code == 1
    result = run(wrong, bad, right)
    assert result.exit_code == 3
    assert [line.split()[1].rstrip(":") for line in result.stdout.splitlines()] == ["refuted", "certified"]
    assert "bad.pt" in result.stderr
    found = documents(wrong, bad, right)
    assert [entry.get("verdict", "error") for entry in found] == ["refuted", "error", "certified"]
    assert found[1]["error"]


def test_undecided_is_a_result(tmp_path):
    behind_identity(construct("rc-dot", T=16, L=10, p=32)).save(tmp_path / "deep.pt")
    result = run(tmp_path / "deep.pt", "--time", "0.5")
    assert result.exit_code == 0
    assert "deep.pt: undecided" in result.stdout
    assert "0 of 160 cells proved" in result.stdout


def test_a_count_that_training_never_showed_is_pointed_out(tmp_path):
    model = construct("rc-dot", T=6, L=5)
    with torch.no_grad():
        model.blocks[0].mlp.b_out[-1] -= 1e6
    model.metadata["task"] = {"sampler": "published"}
    model.save(tmp_path / "published.pt")
    (everything,) = documents(tmp_path / "published.pt", "--max-count", "5")
    assert everything["verdict"] == "refuted"
    assert everything["wrong_counts"] == [5]
    assert "never showed count 5" in everything["notes"][0]
    (seen,) = documents(tmp_path / "published.pt")
    assert seen["verdict"] == "certified"
    assert "at most 4" in seen["notes"][0]
    assert "--max-count 5" in seen["notes"][1]


def test_verdicts_do_not_depend_on_chance(wrong):
    def once() -> dict:
        (document,) = documents(wrong)
        document.pop("seconds")
        return document

    assert once() == once()


@pytest.mark.parametrize("option", [("--time", "0"), ("--max-count", "0"), ("--time", "soon")])
def test_bad_options_are_usage_errors(right, option):
    assert run(right, *option).exit_code == 2
