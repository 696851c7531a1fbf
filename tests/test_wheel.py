"""The built wheel, installed into an empty folder, works away from this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

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


def built(what: str, source: Path, folder: Path) -> Path:
    """The `wheel` or `sdist` that is built from `source`."""
    run(sys.executable, "-m", "build", f"--{what}", "--no-isolation", "--outdir", folder, source, cwd=folder.parent)
    (archive,) = folder.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder with nothing but the wheel's content; everything else comes from the present environment."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run(*pip, "--target", folder / "site", wheel, cwd=folder)
    return folder / "site"


def files(package: Path) -> set[Path]:
    """Every file below `package`, through links, without what Python compiled."""
    below = (Path(folder) / name for folder, _, names in os.walk(package, followlinks=True) for name in names)
    return {file.relative_to(package) for file in below if "__pycache__" not in file.parts}


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_what_they_read(installed):
    packages = sorted(entry.name for entry in installed.iterdir() if entry.is_dir() and "." not in entry.name)
    assert packages == ["bin", "counting_interp"]
    assert files(installed / "counting_interp") == files(ROOT / "src" / "counting_interp")


@pytest.mark.slow
def test_a_source_archive_gives_the_same_wheel_whatever_becomes_of_its_links(wheel, tmp_path):
    """An sdist holds no links, and pip unpacks the links of a `.zip` as files that hold the path they lead to."""
    with tarfile.open(built("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("counting_interp-*")
    assert not [path for path in source.rglob("*") if path.is_symlink()]
    assert contents(built("wheel", source, tmp_path / "from-sdist")) == contents(wheel)
    for name in ("interp", "models", "probes"):
        (source / "src" / "counting_interp" / name).write_text(f"../../{name}")
    assert contents(built("wheel", source, tmp_path / "from-zip")) == contents(wheel)


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture
def namesakes(tmp_path) -> Path:
    """A folder of somebody else's, with modules that are called like the folders of this repository."""
    for name in ("interp", "models", "probes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    (tmp_path / "models.py").write_text("raise RuntimeError('the wrong module')\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


SCRIPT = """
from counting_interp.models import CountingTransformer
print(CountingTransformer.load("bos+sftm-d45-p2").config.d)
"""


@pytest.mark.slow
def test_modules_of_the_same_names_beside_a_user_are_not_met(installed, namesakes):
    path = f"{installed}{os.pathsep}{namesakes}"
    assert run(sys.executable, "script.py", cwd=namesakes, PYTHONPATH=path) == "45\n"
    for command in ([installed / "bin" / "interp"], [sys.executable, "-m", "counting_interp"]):
        assert "d=45" in run(*command, "inspect", "bos+sftm-d45-p2", "-n", "10", cwd=namesakes, PYTHONPATH=path)


@pytest.mark.slow
def test_modules_of_the_same_names_beside_a_notebook_are_not_met(namesakes):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SCRIPT)])
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(namesakes)}}).execute()
    assert notebook.cells[0].outputs[0].text == "45\n"


@pytest.mark.parametrize("name", ["interp", "models", "probes"])
def test_a_folder_refuses_to_be_imported_under_another_name(name):
    code = f"import {name}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert f"write `import counting_interp.{name}`" in done.stderr


@pytest.mark.slow
def test_the_installed_command_works(installed, tmp_path):
    command = installed / "bin" / "interp"
    versions = run(command, "--version", cwd=tmp_path, PYTHONPATH=str(installed))
    assert f"counting-interp {version_of(installed)}" in versions
    assert f"torch {version('torch')}" in versions
    example = next((installed / "counting_interp" / "data" / "zoo").glob("*.safetensors"))
    told = run(command, "inspect", example, "-n", "100", cwd=tmp_path, PYTHONPATH=str(installed))
    assert "hash        holds" in told
    code = "import counting_interp.models as models; print(models.__file__)"
    where = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(installed))
    assert where.startswith(str(installed))


def version_of(site: Path) -> str:
    (info,) = site.glob("counting_interp-*.dist-info")
    return info.name.removeprefix("counting_interp-").removesuffix(".dist-info")
