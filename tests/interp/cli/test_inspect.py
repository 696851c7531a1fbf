"""`interp inspect`: what it says of good files, of bad ones between them, and of names made to deceive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.interp.cli.many_files import expand
from counting_interp.models.checkpoint import TrainingState, save
from tests.helpers import small_model
from tests.models.checkpoint.counting import counting_model, published_layout

NASTY = "\x1b[31m[bold red]</script>\n🦀\u202e" + "x" * 10_000


def run(*arguments: object):
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)])


def documents(*arguments: object) -> list[dict]:
    result = run(*arguments, "--json")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    assert document["schema_version"] == 1
    return document["results"]


@pytest.fixture
def folder(tmp_path) -> Path:
    labelled = counting_model("bos+sftm")
    labelled.metadata = {
        "mechanism": {"label": "RC", "provenance": "constructed"},
        "task": {"sampler": "published"},
        "training": {"name": NASTY},
    }
    save(labelled, tmp_path / "step_2.pt", training_state=TrainingState(values={"epoch": 2}))
    small_model("lin", dtype="float32").save(tmp_path / "step_10.safetensors")
    torch.save(published_layout(counting_model("dot+sftm")), tmp_path / "theirs.pt")
    (tmp_path / "notes.txt").write_text("not a checkpoint, and not looked at")
    return tmp_path


def test_the_json_of_a_good_file(folder):
    (result,) = documents(folder / "step_2.pt", "-n", 500)
    assert result["path"] == str(folder / "step_2.pt")
    sizes = {name: result[name] for name in ("model", "T", "L", "d", "p", "n_layers", "n_classes", "parameters")}
    assert sizes == {
        "model": "bos+sftm",
        "T": 9,
        "L": 5,
        "d": 10,
        "p": 1,
        "n_layers": 1,
        "n_classes": 6,
        "parameters": 323,
    }
    assert (result["accuracy"], result["accuracy_sampler"]) == (1.0, "published")
    assert 0.99 < result["accuracy_interval"][0] < result["accuracy_interval"][1] == 1.0
    assert [entry["sampler"] for entry in result["accuracies"]] == ["published", "paper"]
    assert result["assumed"] == []
    assert result["hash_holds"] is True
    assert result["mechanism"] == {"label": "RC", "provenance": "constructed"}
    assert result["recorded"]["training"]["name"] == NASTY
    assert result["resumable"] is False  # by no command: its state is not that of a training run


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(folder):
    path = folder / "step_10.safetensors"
    assert run(path, "--json").stdout == run(path, "--json").stdout
    assert run(path, "--json").stdout != run(path, "--json", "--seed", 1).stdout


def test_what_was_assumed_is_said_and_flags_settle_it(folder):
    (result,) = documents(folder / "theirs.pt")
    assert result["model"] == "dot+sftm"
    assert result["assumed"][0].endswith("; sure")
    assert result["hash_holds"] is None
    (result,) = documents(folder / "theirs.pt", "--mixing", "bos", "--no-softmax")
    assert result["model"] == "bos"
    assert "as given: mixing=bos, softmax=False" in result["assumed"]
    assert "as given: mixing=bos" in run(folder / "theirs.pt", "--mixing", "bos", "--no-softmax").stdout


def test_a_folder_is_read_in_order_and_a_bad_file_does_not_stop_the_rest(folder):
    (folder / "step_3.pt").write_bytes(b"\x1b[31mhello")
    (folder / "sub").mkdir()
    counting_model("lin").save(folder / "sub" / "deep.pt")
    result = run(folder)
    assert result.exit_code == 3
    assert "step_3.pt: is text, not a checkpoint; give a .pt or .safetensors file" in result.stderr
    rows = result.stdout.splitlines()
    assert len(rows) == 5
    assert [Path(row.split()[-1]).name for row in rows[1:]] == [
        "step_2.pt",
        "step_10.safetensors",
        "deep.pt",
        "theirs.pt",
    ]
    results = documents(folder)
    assert [entry["path"].rsplit("/", 1)[-1] for entry in results if "error" in entry] == ["step_3.pt"]
    assert len(results) == 5


def test_a_folder_without_checkpoints_says_so(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 3
    assert "is a folder without checkpoints (.pt" in result.stderr


def test_a_hash_that_does_not_hold_is_reported(folder):
    path = folder / "step_10.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = run(path)
    assert result.exit_code == 3
    assert "DOES NOT HOLD" in result.stdout
    assert "does not hold; other commands refuse this file" in result.stderr
    assert documents(path)[0]["hash_holds"] is False
    assert "BROKEN" in run(path, folder / "step_2.pt").stdout


def test_weights_that_overflow_are_said_to(tmp_path):
    model = small_model("dot+sftm", dtype="float32")
    with torch.no_grad():
        model.embed.W_E.fill_(1e30)
    model.save(tmp_path / "huge.pt")
    assert documents(tmp_path / "huge.pt")[0]["overflows"] is True
    assert "not finite" in run(tmp_path / "huge.pt").stdout


@pytest.mark.parametrize("variant", ["lin", "dot+sftm", "bos"])
@pytest.mark.parametrize("oddity", ["constant", "identical embeddings", "smallest", "denormal", "L = T"])
def test_odd_but_valid_models_are_described(tmp_path, variant, oddity):
    sizes = {"smallest": {"T": 2, "L": 2, "d": 1, "p": 1}, "L = T": {"T": 5, "L": 5}}.get(oddity, {})
    model = small_model(variant, dtype="float32", **sizes)
    with torch.no_grad():
        if oddity == "constant":
            for weight in model.parameters():
                weight.zero_()
        elif oddity == "identical embeddings":
            model.embed.W_E[1] = model.embed.W_E[0]
        elif oddity == "denormal":
            model.embed.W_E.fill_(1e-40)
    model.save(tmp_path / "ours.pt")
    torch.save(published_layout(model), tmp_path / "theirs.pt")
    for result in documents(tmp_path, "-n", 50):
        assert "error" not in result
        assert 0 <= result["accuracy"] <= 1


def test_names_cannot_steer_the_terminal(folder):
    model = counting_model("lin")
    model.metadata = {
        "mechanism": {"label": NASTY, "provenance": NASTY},
        "assumed": [NASTY],
        "task": {"sampler": NASTY},
    }
    path = folder / "a\x1b[31m\nb[red].pt"
    model.save(path)
    for arguments in ([path], [path, folder / "step_2.pt"], [folder / "no\x1b[2Jthing.pt"]):
        result = run(*arguments)
        assert not any(ord(char) < 32 and char != "\n" for char in result.output)
        assert "\u202e" not in result.output
        assert max(map(len, result.output.splitlines())) < 600
        assert "[red]" in result.output or result.exit_code == 3  # rich markup is text like any other
    assert documents(path)[0]["path"] == str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mixing", "soft"], "'lin'"),
        (["--threads", "0"], "threads"),
        (["--seed", "-1"], "seed"),
        (["-n", "0"], "sequences"),
        (["-n", "1000000000000"], "sequences"),
        (["--seed", "9" * 30], "seed"),
    ],
)
def test_unusable_options_are_usage_errors(folder, arguments, message):
    result = run(folder / "step_2.pt", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_files_that_are_given_are_taken_whatever_they_are_called(folder):
    assert expand([folder / "notes.txt", folder / "nothing"]) == [folder / "notes.txt", folder / "nothing"]
    assert run(folder / "notes.txt").exit_code == 3
