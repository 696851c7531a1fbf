"""The built wheel, installed into an empty folder, works away from this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.helpers import ROOT


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with nothing but the wheel's content; everything else comes from the present environment."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", ROOT, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run(*pip, "--target", folder / "site", wheel, cwd=folder)
    return folder / "site"


def files(package: Path) -> set[Path]:
    found = (file.relative_to(package) for file in package.rglob("*") if file.is_file())
    return {file for file in found if "__pycache__" not in file.parts}


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_what_they_read(installed):
    packages = sorted(entry.name for entry in installed.iterdir() if entry.is_dir() and "." not in entry.name)
    assert packages == ["bin", "interp", "models", "probes"]
    for package in ("interp", "models", "probes"):
        assert files(installed / package) == files(ROOT / package)


@pytest.mark.slow
def test_the_installed_command_works(installed, tmp_path):
    command = installed / "bin" / "interp"
    versions = run(command, "--version", cwd=tmp_path, PYTHONPATH=str(installed))
    assert f"counting-interp {version_of(installed)}" in versions
    assert f"torch {version('torch')}" in versions
    example = next((installed / "models" / "zoo" / "checkpoints").glob("*.safetensors"))
    told = run(command, "inspect", example, "-n", "100", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "hash        holds" in told
    where = run(sys.executable, "-c", "import models; print(models.__file__)", cwd=tmp_path, PYTHONPATH=str(installed))
    assert where.startswith(str(installed))


def version_of(site: Path) -> str:
    (info,) = site.glob("counting_interp-*.dist-info")
    return info.name.removeprefix("counting_interp-").removesuffix(".dist-info")
