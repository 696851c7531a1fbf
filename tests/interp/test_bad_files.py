"""Every command that reads checkpoints refuses a bad one in the same way: one line, exit code 3, no traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from interp.cli import main
from models.constructions import construct

COMMANDS = {
    "inspect": ["inspect", "FILE"],
    "classify": ["classify", "FILE"],
    "verify": ["verify", "FILE"],
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
    arguments += {"report": ["--several"], "figures": ["--format", "html", "--only", "spectrum"]}.get(command, [])
    code, printed, err = run(arguments, {"FILE": bad, "OUT": out}, monkeypatch, capsys)
    assert code == 3
    assert err.startswith(f"interp: {bad}: is empty")
    assert len(err.splitlines()) == 1
    assert printed
    assert out.exists() == (command in ("figures", "report"))


@pytest.mark.parametrize("command", ["inspect", "classify", "verify"])
def test_a_bad_file_in_json(tmp_path, monkeypatch, capsys, command):
    bad = tmp_path / "a\x1b[31m[red]\nb.pt"
    bad.write_bytes(b"hello")
    code, out, _ = run([*COMMANDS[command], "--json"], {"FILE": bad}, monkeypatch, capsys)
    assert code == 3
    (result,) = json.loads(out)["results"]
    assert result == {"path": str(bad), "error": "is text, not a checkpoint; give a .pt or .safetensors file"}
