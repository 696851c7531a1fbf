"""`interp prove --certificate` and `interp check`, as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.models.constructions import construct
from counting_interp.util.errors import CheckpointError
from counting_interp.util.files import OutputError
from tests.helpers import run_interp, small_model


def run(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    model, certificate = tmp_path / "right.pt", tmp_path / "proof.json"
    construct("rc-bos", T=6, L=5).save(model)
    result = run("prove", model, "--certificate", certificate, "--max-count", 4)
    assert result.exit_code == 0
    assert "proof.json" in result.stdout
    return certificate, model


def test_a_certificate_is_written_and_holds(files):
    result = run("check", *files)
    assert result.exit_code == 0
    assert "holds for" in result.stdout
    assert "true count up to 4 of all 6^5 sequences" in result.stdout
    assert "in real numbers and in float32" in result.stdout
    (document,) = json.loads(run("check", *files, "--json").stdout)["results"]
    assert document["holds"] is True
    assert 0 < document["slack"] <= document["margin"]


def test_a_changed_certificate_is_refused(files):
    certificate, model = files
    certificate.write_text(certificate.read_text().replace('"counts":4', '"counts":5'))
    result = run("check", certificate, model)
    assert result.exit_code == 1
    assert "sha256 does not hold" in result.stderr
    (document,) = json.loads(run("check", certificate, model, "--json").stdout)["results"]
    assert document["holds"] is False


def test_a_checkpoint_that_cannot_be_read_is_an_error_of_its_own(files, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"PK nonsense")
    assert isinstance(run("check", files[0], tmp_path / "bad.pt").exception, CheckpointError)
    assert run_interp("check", files[0], tmp_path / "bad.pt").returncode == 3


def test_without_a_proof_nothing_is_written(tmp_path):
    small_model("dot", dtype="float32").save(tmp_path / "wrong.pt")
    result = run("prove", tmp_path / "wrong.pt", "--certificate", tmp_path / "proof.json")
    assert result.exit_code == 1
    assert "no certificate was written" in result.stdout
    assert not (tmp_path / "proof.json").exists()


def test_a_certificate_is_about_one_file_and_never_replaces_a_checkpoint(files):
    certificate, model = files
    before = model.read_bytes()
    assert run("prove", model, model, "--certificate", "proof.json").exit_code == 2
    assert isinstance(run("prove", model, "--certificate", model, "--overwrite").exception, OutputError)
    assert model.read_bytes() == before
    assert run("prove", model, "--certificate", certificate).exit_code == 0  # its own kind is replaced
    certificate.write_text("{}")
    assert isinstance(run("prove", model, "--certificate", certificate).exception, OutputError)


def test_every_cell_is_shown_where_asked(files):
    result = run("prove", files[1], "--cells")
    rows = [line.split() for line in result.stdout.splitlines() if line.endswith("float32")]
    assert len(rows) == 30
    assert all(float(row[6]) > 0 for row in rows)  # slack
    (document,) = json.loads(run("prove", files[1], "--cells", "--json").stdout)["results"]
    assert len(document["cell_list"]) == document["cells"] == 30
    for cell in [*document["cell_list"], document["tightest"]]:
        assert 0 < cell["rounding"] < cell["proved"] <= cell["margin"] + 1e-9
        assert cell["slack"] == pytest.approx(cell["proved"] - cell["rounding"])


def test_what_does_not_exist_is_said_not_to_exist(files, tmp_path):
    for certificate, model in ((tmp_path / "none.json", files[1]), (files[0], tmp_path / "none.pt")):
        error = run("check", certificate, model).exception
        assert isinstance(error, CheckpointError)
        assert error.reason.startswith("does not exist; ")


def test_a_bundled_model_is_checked_by_its_name(tmp_path):
    assert run("prove", "bos-d45-p4-proved", "--certificate", tmp_path / "proof.json").exit_code == 0
    result = run("check", tmp_path / "proof.json", "bos-d45-p4-proved")
    assert result.exit_code == 0
    assert "holds for" in result.stdout
