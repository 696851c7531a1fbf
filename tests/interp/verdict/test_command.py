"""`interp classify`: one file, several, a bad one between them, and the snapshots of a run in order."""

from __future__ import annotations

import json
import re

import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.constructions import construct
from tests.models.checkpoint.counting import published_layout

NASTY = "\x1b[31m</script>\n[bold]"


def run(*arguments: object):
    return CliRunner().invoke(app, ["classify", "--quick", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two constructions, a file of text, and a run of three snapshots whose names are not in the order of steps."""
    folder = tmp_path_factory.mktemp("checkpoints")
    construct("rc-dot", T=9, L=4).save(folder / "rc.pt")
    construct("ic-lin", T=9, L=4).save(folder / "ic.safetensors")
    (folder / "broken.pt").write_text("not a checkpoint")
    (folder / "run").mkdir()
    counter = construct("rc-bos", T=9, L=4)
    untrained = CountingTransformer(counter.config)
    for name, model, step in (("a", counter, 2000), ("b", untrained, 0), ("c", counter, 1000)):
        model.metadata = {"step": step, "seed": 5, "assumed": [NASTY]}
        model.save(folder / "run" / f"{name}.pt")
    return folder


def test_one_file_gives_the_verdict_with_its_evidence(folder):
    result = run(folder / "rc.pt")
    assert result.exit_code == 0
    for words in ("RC: relation-based", "share of RC", "inventory: its copies, to a bystander", "95 % interval"):
        assert words in result.stdout


def test_several_files_give_one_row_each_and_a_bad_one_does_not_stop_them(folder):
    result = run(folder / "rc.pt", folder / "broken.pt", folder / "ic.safetensors")
    assert result.exit_code == 3
    rows = result.stdout.splitlines()
    assert len(rows) == 3
    assert "mechanism" in rows[0]
    assert "RC" in rows[1].split()
    assert "IC" in rows[2].split()
    assert "broken.pt" in result.stderr
    assert "broken.pt" not in result.stdout


def test_a_bare_file_of_the_authors_is_judged_on_the_distribution_it_counts_best_on(tmp_path):
    """Count L was never shown to this model: on sequences that have it, it would be called unsolved."""
    model = CountingTransformer.load("lin+sftm-d64-p64")
    torch.save(published_layout(model), tmp_path / "theirs.pt")
    result = run("--json", "--mixing", "lin", "--softmax", tmp_path / "theirs.pt")
    assert result.exit_code == 0, result.output
    (entry,) = json.loads(result.stdout)["results"]
    assert (entry["mechanism"], entry["sampler"]) == ("IC", "published")
    assert entry["accuracy"] > 0.95


def test_json_is_one_document_with_an_error_in_place_of_a_verdict(folder):
    result = run("--json", folder / "broken.pt", folder / "ic.safetensors", folder / "missing.pt")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    assert document["schema_version"] == 3
    broken, good, missing = document["results"]
    assert set(broken) == set(missing) == {"path", "error"}
    assert good["model"] == "lin"
    assert good["mechanism"] == "IC"
    shares = {entry["name"]: entry["value"] for entry in good["estimates"]}
    assert (shares["RC"], shares["IC"], shares["gated"]) == pytest.approx((0, 1, 0), abs=1e-9)
    assert good["accuracy"] == 1


def test_what_the_transplants_do_is_proved_on_request(folder):
    text = run("--prove", folder / "rc.pt").stdout
    assert re.search(r"proved    on every sequence, RC (\d+) of \1 steps by one count", text)
    (result,) = json.loads(run("--prove", "--json", folder / "ic.safetensors").stdout)["results"]
    assert result["proved"]["proved"] == {"RC": 0, "IC": result["proved"]["steps"], "gated": 0, "either": 0}
    assert result["unproved"] is None
    table = run("--prove", folder / "rc.pt", folder / "ic.safetensors").stdout
    assert [line.split("  ")[-1].strip()[:2] for line in table.splitlines()] == ["pr", "RC", "IC"]


def test_snapshots_are_shown_by_step_with_when_the_strategy_forms(folder):
    result = run(folder / "run")
    assert result.exit_code == 0
    steps = [line.split()[0] for line in result.stdout.splitlines()[2:5]]
    assert steps == ["0", "1,000", "2,000"]
    assert "RC forms by step 1,000." in result.stdout
    document = json.loads(run("--json", folder / "run").stdout)
    (formation,) = document["runs"]
    assert formation["steps"] == [0, 1000, 2000]
    assert formation["labels"] == ["unsolved", "RC", "RC"]
    assert formation["forms_at"] == 1000
    assert formation["passes_through"] == []


def test_what_a_file_says_cannot_steer_the_terminal(folder):
    result = run(folder / "run" / "a.pt")
    assert "\x1b" not in result.stdout


def test_the_same_seed_gives_the_same_bytes(folder):
    arguments = ("--json", folder / "rc.pt", folder / "ic.safetensors", "--seed", 3)
    assert run(*arguments, "--workers", 1).stdout == run(*arguments, "--workers", 2).stdout


def test_a_model_too_short_to_classify_is_reported(tmp_path):
    CountingTransformer(CountingConfig.parse("dot", T=4, L=2, d=3, p=2)).save(tmp_path / "short.pt")
    result = run("--json", tmp_path / "short.pt")
    assert result.exit_code == 3
    assert "L >= 3" in json.loads(result.stdout)["results"][0]["error"]
