"""Every command that reads checkpoints refuses a bad one in the same way: one line, exit code 3, no traceback."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from counting_interp.interp.cli import main
from counting_interp.models.constructions import construct
from tests.helpers import small_model

COMMANDS = {
    "inspect": ["inspect", "FILE"],
    "classify": ["classify", "FILE"],
    "prove": ["prove", "FILE"],
    "probe": ["probe", "attention", "FILE"],
    "figures": ["figures", "FILE", "-o", "OUT"],
    "report": ["report", "FILE", "-o", "OUT"],
}


def run(arguments: list[str], names: dict[str, Path], monkeypatch, capsys) -> tuple[object, str, str]:
    monkeypatch.setattr(sys, "argv", ["interp", *(str(names.get(word, word)) for word in arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_file(tmp_path, monkeypatch, capsys, command):
    bad = tmp_path / "a\x1b[31m[red]\nb.pt"
    bad.write_bytes(b"PK\3\4\x1b[31m")
    names = {"FILE": bad, "OUT": tmp_path / "out"}
    code, out, err = run(COMMANDS[command], names, monkeypatch, capsys)
    assert (code, out) == (3, "")
    assert err.startswith("interp: ")
    assert "\x1b" not in err
    assert err.rstrip("\n").endswith("it was cut off, or something was appended; copy or download it again")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_the_good_files_beside_a_bad_one_are_worked_on(tmp_path, monkeypatch, capsys, command):
    bad, good, out = tmp_path / "bad.pt", tmp_path / "good.pt", tmp_path / "out"
    bad.write_bytes(b"")
    construct("rc-bos", 5, 3).save(good)
    arguments = [*COMMANDS[command], str(good)]
    arguments += {"figures": ["--format", "html", "--only", "spectrum"]}.get(command, [])
    code, printed, err = run(arguments, {"FILE": bad, "OUT": out}, monkeypatch, capsys)
    assert code == 3
    assert err.startswith(f"interp: {bad}: is empty")
    assert len(err.splitlines()) == 1
    assert printed
    assert out.exists() == (command in ("figures", "report"))


@pytest.mark.parametrize("command", ["inspect", "classify", "figures", "report", "prove"])
def test_a_bad_file_in_json(tmp_path, monkeypatch, capsys, command):
    bad = tmp_path / "a\x1b[31m[red]\nb.pt"
    bad.write_bytes(b"hello")
    formats = ["--format", "html"] if command == "figures" else []
    names = {"FILE": bad, "OUT": tmp_path / "out"}
    code, out, _ = run([*COMMANDS[command], *formats, "--json"], names, monkeypatch, capsys)
    assert code == 3
    (result,) = json.loads(out)["results"]
    assert result == {"path": str(bad), "error": "is text, not a checkpoint; give a .pt or .safetensors file"}


def test_the_json_of_a_report_has_its_verdicts(tmp_path, monkeypatch, capsys):
    bad, good, page = tmp_path / "bad.pt", tmp_path / "good.pt", tmp_path / "page.html"
    bad.write_bytes(b"")
    construct("rc-bos", 5, 3).save(good)
    names = {"FILE": bad, "GOOD": good, "OUT": page}
    command = ["report", "FILE", "GOOD", "--show", "bad", "-o", "OUT", "--json"]
    code, out, _ = run(command, names, monkeypatch, capsys)
    document = json.loads(out)
    refused, shown = document["results"]
    assert (code, document["report"], refused["path"]) == (3, str(page), str(bad))
    assert shown["mechanism"] == "RC"
    assert "overlap" in shown["figures"]  # shown in full, as the one that was asked for could not be


@pytest.mark.parametrize("command", ["inspect", "figures", "report"])
def test_a_file_that_may_not_be_read_does_not_stop_the_others(tmp_path, monkeypatch, capsys, command):
    good, closed = tmp_path / "good.safetensors", tmp_path / "closed.safetensors"
    small_model("dot", T=4, L=3, d=2, p=2).save(good)
    closed.write_bytes(good.read_bytes())
    unreadable(closed, monkeypatch)
    several = ["--only", "overlap"] if command == "figures" else []
    formats = ["--format", "html"] if command == "figures" else []
    names = {"FILE": good, "OUT": tmp_path / "out"}
    code, out, err = run([*COMMANDS[command], str(closed), *several, *formats], names, monkeypatch, capsys)
    assert code == 3
    assert ("good" if command == "inspect" else "out") in out
    assert f"{closed}: may not be read by you" in err


def test_a_folder_that_may_not_be_read_is_said(tmp_path, monkeypatch, capsys):
    small_model("dot", T=4, L=3, d=2, p=2).save(tmp_path / "good.safetensors")
    (tmp_path / "closed").mkdir()
    unreadable(tmp_path / "closed", monkeypatch)
    code, out, err = run(["inspect", "FILE"], {"FILE": tmp_path}, monkeypatch, capsys)
    assert code == 3
    assert "good" in out
    assert "closed: is a folder that cannot be read (Permission denied)" in err


def unreadable(path: Path, monkeypatch) -> None:
    """As `chmod 0` makes it for everyone but root, who may run the tests."""

    def refusing(function):
        def call(name=".", *arguments, **options):
            if str(name) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return function(name, *arguments, **options)

        return call

    monkeypatch.setattr(os, "open", refusing(os.open))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    access = os.access
    monkeypatch.setattr(os, "access", lambda name, *mode, **options: str(name) != str(path) and access(name, *mode))
