"""Wherever a checkpoint is asked for, the name of a bundled model will do; a file of that name comes first."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import counting_interp.interp.cli.repair
from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.cli import app
from counting_interp.interp.cli.many_files import expand
from counting_interp.models import CountingTransformer
from tests.helpers import small_model

NAME = "bos-d45-p4"
COMMANDS = {
    "inspect": ["-n", "5", "--json"],
    "classify": ["--quick", "--json"],
    "prove": ["--time", "0.05", "--json"],
    "probe overlap": ["--json"],
    "figures": ["--only", "overlap", "--format", "html", "-o", "out", "--json"],
    "report": ["-o", "out.html", "--json"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_a_name(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*command.split(), NAME, *COMMANDS[command]])
    assert done.exit_code in (0, 1), done.output
    assert f"{NAME}.safetensors" in done.stdout or (tmp_path / "out").is_dir()
    json.loads(done.stdout)


def test_repair_takes_a_name(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        counting_interp.interp.cli.repair, "repair_all", lambda models, *rest: given.extend(models) or 0
    )
    done = CliRunner().invoke(app, ["repair", NAME, "-o", str(tmp_path / "ck.pt")])
    assert done.exit_code == 0, done.output
    ((parent, _),) = given
    assert parent.metadata["sha256"] == CountingTransformer.load(NAME).metadata["sha256"]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_repair_never_replaces_its_input(tmp_path, link):
    shutil.copy(zoo_path(NAME), tmp_path / "input.safetensors")
    link(tmp_path / "input.safetensors", tmp_path / "link.safetensors")
    before = (tmp_path / "input.safetensors").read_bytes()
    command = ["repair", str(tmp_path / "input.safetensors"), "-o", str(tmp_path / "link.safetensors"), "--overwrite"]
    done = CliRunner().invoke(app, command)
    assert "is one of the inputs" in str(done.exception)
    assert (tmp_path / "input.safetensors").read_bytes() == before


def test_a_file_of_the_name_comes_first_and_zoo_is_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_model("lin").save(NAME + ".pt")
    (tmp_path / NAME).symlink_to(NAME + ".pt")
    assert expand([Path(NAME)]) == [Path(NAME)]
    assert CliRunner().invoke(app, ["inspect", NAME, "-n", "5"]).stdout.count("lin") > 0
    assert expand([Path("zoo")]) == [zoo_path(name) for name in zoo_names()]
    assert expand([Path("no-such-model")]) == [Path("no-such-model")]
