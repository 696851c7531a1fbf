"""`interp construct` and `interp bounds`: results on standard output, refusals with exit code 2 and the bound."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import CATALOGUE
from counting_interp.util.errors import InterpError


def run(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_writes_a_checkpoint_that_counts_and_says_how(tmp_path):
    path = tmp_path / "model.pt"
    result = run("construct", "rc-bos+sftm-sign", "-T", 16, "-L", 6, "-d", 9, "-p", 2, "-o", path)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{path}: rc-bos+sftm-sign, RC in bos+sftm, T=16, L=6, d=9, p=2\n"
    model = CountingTransformer.load(path)
    assert model.accuracy(n=500) == 1
    assert model.metadata["mechanism"]["label"] == "RC"
    assert model.metadata["mechanism"]["provenance"] == "constructed"


def test_options_classes_precision_and_json(tmp_path):
    path = tmp_path / "model.safetensors"
    result = run(
        *("construct", "hybrid-dot", "-T", 8, "-L", 5, "--set", "weight=0.25", "--classes", 6),
        *("--dtype", "float64", "-o", path, "--json"),
    )
    (document,) = json.loads(result.stdout)["results"]
    assert (document["model"], document["n_classes"], document["dtype"]) == ("dot", 6, "float64")
    assert (document["mechanism"]["label"], document["mechanism"]["weight"]) == ("mixed", 0.25)
    assert CountingTransformer.load(path).accuracy(n=200) == 1


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for name in ("a.pt", "b.pt"):
        run("construct", "ic-dot-compact", "-T", 8, "-L", 5, "--seed", 3, "-o", tmp_path / name)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rc-dot", "-d", "31"), "rc-dot needs d >= 32 at T=32, L=10: d >= T: the tokens are orthogonal; got d=31"),
        (("ic-lin", "-p", "31"), "ic-lin needs p >= 32 at T=32, L=10 (one hidden unit per token); got p=31"),
        (("rc-dot", "-T", "5", "-L", "6"), "a construction needs 2 <= L <= T, got L=6, T=5"),
        (("ic-lin-compact", "-d", "27"), "needs d >= 28 at T=32, L=10: T vectors in R^d with band below 1/(2L-3)"),
        (("nonsense",), "there is no construction 'nonsense'"),
        (("hybrid-dot", "--set", "weight"), "an option is written as weight=0.3, got 'weight'"),
        (("hybrid-dot", "--set", "weight=2"), "weight, the share of RC in the answer, must lie between 0 and 1"),
        (("rc-dot", "--dtype", "half"), "dtype must be one of float32, float64, got 'half'"),
        (("ic-dot+sftm-binary", "-L", "14"), "counts stay apart for L <= 13"),
    ],
)
def test_bad_requests_name_the_violated_bound(tmp_path, arguments, message):
    result = run("construct", *arguments, "-o", tmp_path / "x.pt")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "x.pt").exists()


def test_a_frame_that_is_not_found_says_what_was_reached_and_what_would_do(tmp_path):
    result = run("construct", "ic-dot-coherence", "-T", 8, "-L", 8, "-d", 4, "-o", tmp_path / "x.pt")
    assert result.exit_code == 2
    assert "8 vectors in R^4 with coherence below 0.377964; the best of 20 starts has" in result.stderr


def test_an_unwritable_place_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("construct", "rc-dot", "-T", 5, "-L", 3, "-o", tmp_path / "file" / "x.pt")
    assert isinstance(result.exception, InterpError)
    assert "choose another -o" in str(result.exception)


def test_a_name_is_needed():
    assert run("construct", "rc-dot").exit_code == 2
    assert run("construct").exit_code == 2


def test_lists_the_catalogue():
    lines = run("construct", "--list", "-T", 8, "-L", 5).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(CATALOGUE)
    rows = json.loads(run("construct", "--list", "--json").stdout)["results"]
    assert {row["name"]: row["d"] for row in rows}["rc-bos+sftm-circle"] == 3


def test_bounds_as_table_and_as_json():
    lines = run("bounds").stdout.splitlines()
    assert lines[0].split() == [
        "model",
        "p",
        "paper",
        "d",
        "coherence",
        "<",
        "Welch",
        "our",
        "d",
        "by",
        "trained",
        "d",
        "trained,",
        "certified",
    ]
    assert lines[2].split() == ["lin", "32", "29", "0.0588", "0.0578", "29", "ic-lin-compact", "-", "-"]
    document = json.loads(run("bounds", "-p", 4, "-p", 45, "--json").stdout)
    assert (document["schema_version"], document["T"], document["L"]) == (1, 32, 10)
    assert {(row["variant"], row["p"]): row["trained_d"] for row in document["results"]}["dot+sftm", 45] == 16


def test_bounds_refuse_senseless_sizes():
    result = run("bounds", "-T", 4, "-L", 9)
    assert result.exit_code == 2
    assert "3 <= L <= T, got L=9, T=4" in result.stderr
