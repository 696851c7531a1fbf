"""A hostile folder runs no code, whichever command is started in it and however."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from counting_interp.data import runs
from counting_interp.interp.cli import app
from counting_interp.interp.jobs import LocalWorkers
from tests.helpers import ROOT, small_model
from tests.interp.sweep import fakes

# `runpy`, and what it imports, is not among them: `python -m` runs that before anything of ours.
MODULES = ("json", "numba", "numpy", "pickle", "rich", "sitecustomize", "sqlite3", "torch", "typer", "usercustomize")
PACKAGES = ("distributed", "interp", "models", "multiprocessing", "probes")
SCRIPT = "import sys\nfrom counting_interp.interp.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
SMALL = ("--preset", "quick", "--models", "dot", "--d", "2", "--p", "2", "--epochs", "1", "--workers", "1")
COMMANDS = {
    "atlas": [("atlas", "{table}", "-o", "atlas.html")],
    "bounds": [("bounds", "-T", "15", "-L", "5")],
    "check": [("check", "model.json", "model.pt")],
    "classify": [("classify", "model.pt")],
    "construct": [("construct", "rc-bos", "-T", "5", "-L", "3", "-o", "made.pt")],
    "figures": [("figures", "model.pt", "-o", "figures", "--only", "attention")],
    "inspect": [("inspect", "model.pt")],
    "llm": [("llm", "no-such-model")],
    "probe": [("probe", "attention", "model.pt")],
    "repair": [("repair", "model.pt", "-o", "repaired.pt", "--time", "0.1")],
    "report": [("report", "model.pt", "-o", "report.html")],
    "sweep": [("sweep", "run", "sweep", *SMALL, "--classify"), ("sweep", "status", "sweep"), ("sweep", "presets")],
    "train": [("train", "--model", "dot", "-d", "2", "-p", "2", "-T", "5", "-L", "3", "--epochs", "1", "-o", "new.pt")],
    "zoo": [("zoo",)],
    "prove": [("prove", "model.pt", "--time", "0.1")],
}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Modules and packages that leave their name in the file `ran` when they are imported, beside a model."""
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    code = f"with open({str(tmp_path / 'ran')!r}, 'a') as ran:\n    ran.write(__name__ + '\\n')\n"
    for name in MODULES:
        (hostile / f"{name}.py").write_text(code)
    for name in PACKAGES:
        (hostile / name).mkdir()
        (hostile / name / "__init__.py").write_text(code)
    small_model("dot", T=5, L=3).save(hostile / "model.pt")
    return hostile


def ran(folder: Path) -> list[str]:
    mark = folder.parent / "ran"
    return mark.read_text().split() if mark.exists() else []


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def test_the_folder_would_run_code(folder):
    start(folder, sys.executable, "-c", "import multiprocessing")
    assert ran(folder) == ["multiprocessing"]


def test_there_is_a_call_of_every_command():
    assert sorted(COMMANDS) == sorted(get_command(app).commands)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_code_of_the_folder_it_is_started_in(folder, name):
    table = runs("L5")
    for call in COMMANDS[name]:
        arguments = [argument.format(table=table) for argument in call]
        done = start(folder, sys.executable, "-m", "counting_interp", *arguments)
        assert "Traceback" not in done.stderr
        assert ran(folder) == [], done.stderr
    if name == "sweep":
        assert len(list((folder / "sweep" / "checkpoints").iterdir())) == 1


@pytest.mark.slow
def test_nor_does_the_installed_command(folder):
    script = folder.parent / "interp-command"
    script.write_text(SCRIPT)
    done = start(folder, sys.executable, str(script), "sweep", "run", "sweep", *SMALL)
    assert (done.returncode, ran(folder)) == (0, []), done.stderr


def test_a_worker_runs_no_code_of_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (attempt,) = LocalWorkers(1, current_folder).run(fakes.jobs(1))
    assert (attempt.result, attempt.error) == (str(folder), None)
    assert os.getcwd() == str(folder)
    assert ran(folder) == []


def current_folder(job: object) -> str:
    """What a worker says of itself."""
    return os.getcwd()
