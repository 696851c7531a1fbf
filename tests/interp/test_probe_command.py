"""`interp probe`: results on standard output, complaints on standard error, exit codes as documented."""

from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner, Result

from counting_interp.interp.cli import app
from counting_interp.models.constructions import construct
from counting_interp.probes.catalogue import CATALOGUE
from tests.helpers import run_interp, small_model


def interp(*arguments) -> Result:
    """`interp ...` in this process, to save the seconds of import."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoints")
    construct("rc-bos+sftm", T=8, L=5).save(path / "rc.pt")
    small_model("lin").save(path / "lin.safetensors")
    return path


def test_list_names_every_probe_without_a_checkpoint():
    listed = run_interp("probe", "--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [probe.name for probe in CATALOGUE]
    as_json = json.loads(interp("probe", "--list", "--json").stdout)
    assert as_json["schema_version"] == 1
    assert as_json["results"][0] == {
        "name": CATALOGUE[0].name,
        "description": CATALOGUE[0].description,
        "options": list(CATALOGUE[0].options),
    }


def test_summary_for_people(folder):
    done = interp("probe", "bos-share", folder / "rc.pt")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "bos+sftm, T=8, L=5, d=8, p=1" in done.stdout
    assert "prediction follows  1" in done.stdout


def test_json_is_one_document_with_everything_measured(folder):
    done = interp("probe", "attention", folder / "rc.pt", "--json", "--sequence", "ABBBA")
    result = json.loads(done.stdout)["results"][0]
    assert result["path"] == str(folder / "rc.pt")
    assert (result["model"], result["T"], result["probe"]) == ("bos+sftm", 8, "attention")
    assert result["data"]["labels"] == ["$", "A", "B", "B", "B", "A"]
    assert result["summary"]["auc"] == 1.0


def test_the_same_seed_gives_the_same_bytes(folder):
    runs = [interp("probe", "confusion", folder / "lin.safetensors", "--json", "--seed", "3").stdout for _ in range(2)]
    assert runs[0] == runs[1]


def test_csv_of_several_files_has_their_paths_and_one_header(folder):
    done = interp("probe", "overlap", folder, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["path"] for row in rows} == {str(folder / "rc.pt"), str(folder / "lin.safetensors")}
    assert done.stdout.count("path,") == 1


def test_a_probe_that_makes_no_sense_for_one_file_still_runs_on_the_rest(folder):
    done = interp("probe", "bos-share", folder, "--json")
    assert done.exit_code == 1
    results = {result["model"]: result for result in json.loads(done.stdout)["results"]}
    assert "has no `$` token" in results["lin"]["not_applicable"]
    assert results["bos+sftm"]["summary"]["monotonicity"] == -1.0
    assert "has no `$` token" in done.stderr


def test_a_bad_file_is_reported_and_the_rest_is_probed(folder, tmp_path):
    bad = tmp_path / "bad.pt"
    bad.write_bytes(b"not a checkpoint")
    done = interp("probe", "spectrum", bad, folder / "rc.pt", "--json")
    assert done.exit_code == 3
    first, second = json.loads(done.stdout)["results"]
    assert set(first) == {"path", "error"}
    assert second["summary"]["participation"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bos-shar", "rc.pt"], "did you mean bos-share"),
        (["attention", "rc.pt", "--sequence", "ABC"], "sequences of L=5 tokens, got 3"),
        (["attention", "rc.pt", "--layer", "1"], "layer must lie in 0..0"),
        (["overlap", "rc.pt", "--layer", "0"], "has no option 'layer'"),
        (["attention", "rc.pt", "--json", "--csv"], "one of --json and --csv"),
        (["attention"], "give a probe and a checkpoint"),
    ],
)
def test_usage_errors(folder, arguments, message):
    done = interp("probe", *[folder / a if a == "rc.pt" else a for a in arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
