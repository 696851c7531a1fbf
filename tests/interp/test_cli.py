"""The frame of the command line, as a process: what it imports, prints, and returns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from counting_interp.data import zoo_names
from counting_interp.interp import cli
from counting_interp.interp.cli import PANELS, app
from tests.helpers import ROOT, run_interp, small_model

HEAVY = ("torch", "transformer_lens", "numba", "scipy", "plotly", "numpy")


HELP_OF_EVERYTHING = f"""
import sys
from typer.main import get_command
from counting_interp.interp.cli import app
for arguments in [[], *([name] for name in get_command(app).commands)]:
    try:
        app([*arguments, "--help"])
    except SystemExit as stop:
        assert stop.code == 0, arguments
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


def test_help_imports_no_torch_nor_anything_else_that_is_heavy():
    command = [sys.executable, "-c", HELP_OF_EVERYTHING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stderr.strip() == "[]"
    for expected in ("Find out how a small transformer counts", "Say what a checkpoint is", "--mixing"):
        assert expected in done.stdout


def test_help_is_in_panels_with_joined_lines_and_examples(interp):
    _, out, _ = interp("--help")
    assert [out.index(f" {panel} ") for panel in PANELS] == sorted(out.index(f" {panel} ") for panel in PANELS)
    for name, command in get_command(app).commands.items():
        for below, leaf in getattr(command, "commands", {"": command}).items():
            _, out, _ = interp(name, *below.split(), "--help")
            assert not re.search(r"<\w|range\]|\[\d|x[<>]=", out), "a word says what an option takes"
            assert "9223372036854775807" not in out
            assert "Examples:" in out, (name, below)
            assert leaf.help
            assert all("\n" not in part for part in (leaf.help or "").split("\n\n") if not part.startswith(" "))


def test_a_mistyped_name_gets_the_nearest_before_torch_is_imported():
    command = (
        "from counting_interp.interp.cli import main\nimport sys\nsys.argv[1:] = ['classify', 'bos-sftm-d45-p2']\n"
    )
    command += "try:\n    main()\nfinally:\n    print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (3, "False\n")
    assert "no bundled model has this name; did you mean bos+sftm-d45-p2?" in done.stderr


def test_the_zoo_is_listed_from_the_heads_of_its_files(interp):
    code, out, _ = interp("zoo")
    lines = out.splitlines()[1:]
    assert (code, [line.split()[0] for line in lines]) == (0, zoo_names())
    assert "> 99.9 %  Fig. 3: relation-based counting" in lines[0]


def test_no_colour_where_none_is_wanted():
    plain = run_interp("--help", env={**os.environ, "NO_COLOR": "1", "FORCE_COLOR": ""})
    assert plain.returncode == 0
    assert "\x1b[3" not in plain.stdout


def test_version_prints_the_versions_that_matter():
    done = run_interp("--version")
    assert done.returncode == 0
    names = [line.split(" ")[0] for line in done.stdout.splitlines()]
    assert names == ["python", "counting-interp", "torch", "transformer-lens", "numpy", "numba", "plotly"]


def test_quiet_is_asked_for_before_the_command():
    try:
        done = CliRunner().invoke(app, ["--quiet", "sweep", "presets", "--json"])
        assert (done.exit_code, cli.console.quiet) == (0, True)
        assert json.loads(done.stdout)["results"][0].keys() == {"name", "runs", "shows"}
    finally:
        cli.console.quiet = False


@pytest.mark.parametrize("arguments", [["bounds", "--json"], ["sweep", "presets"], ["construct", "--help"]])
def test_a_closed_pipe_is_quiet(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "counting_interp", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_is_no_traceback(closed):
    command = f"{sys.executable} -m counting_interp sweep presets {closed}"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_what_is_written_while_standard_output_is_closed_is_whole(tmp_path):
    made = f"{sys.executable} -m counting_interp construct rc-bos -T 5 -L 3 -o {tmp_path}/a.pt >&-"
    done = subprocess.run(made, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert run_interp("inspect", tmp_path / "a.pt").returncode == 0


def interrupted_while_a_class_is_made() -> None:
    """What Python 3.11 makes of Ctrl-C there."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as stop:
        raise RuntimeError("Error calling __set_name__ on 'cached_property' instance") from stop


def a_defect() -> None:
    raise RuntimeError("a defect")


def test_ctrl_c_in_the_middle_of_an_import_is_an_interruption(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", interrupted_while_a_class_is_made)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().err) == (130, "interp: interrupted\n")
    monkeypatch.setattr(cli, "app", a_defect)
    with pytest.raises(RuntimeError, match="a defect"):
        cli.main()


@pytest.mark.slow
def test_results_on_standard_output_only_and_exit_codes(tmp_path):
    small_model("lin").save(tmp_path / "good.pt")
    (tmp_path / "bad.pt").write_bytes(b"")
    good = run_interp("inspect", tmp_path / "good.pt")
    assert (good.returncode, good.stderr) == (0, "")
    bad = run_interp("inspect", tmp_path / "bad.pt")
    assert (bad.returncode, bad.stdout) == (3, "")
    assert bad.stderr == f"interp: {tmp_path}/bad.pt: is empty, not a checkpoint; give a .pt or .safetensors file\n"
    assert run_interp("no-such-command").returncode == 2
    latin = run_interp("inspect", tmp_path / "good.pt", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert latin.returncode == 0


@pytest.mark.slow
def test_what_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = run_interp("construct", "rc-bos", "-T", "5", "-L", "3", "-o", tmp_path / "file" / "a.pt")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Not a directory" in done.stderr or "File exists" in done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("interp cl", "classify"),
        ("interp train --keep", "--keep-best"),
        ("interp figures ph", "phase"),
        ("interp report bos-d45-p4", "bos-d45-p4\nbos-d45-p4-proved"),
        ("interp probe att", "attention"),
        ("interp construct rc-bos-t", "rc-bos-tagged"),
        ("interp sweep run DIR --preset coarse-L", "coarse-L15"),
        ("interp train --model lin", "lin\nlin+sftm"),
    ],
)
def test_the_shell_completes_commands_options_and_bundled_models(typed, offered):
    asked = {"_INTERP_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(app, [], prog_name="interp", env=asked)
    assert done.stdout.strip() == offered
