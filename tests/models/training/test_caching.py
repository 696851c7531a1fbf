"""The cache of compiled kernels on a bad day: files cut short, a full disk, nowhere to write."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numba
import pytest

from models.training.kernels import caching
from models.training.kernels.compiling import compiled
from tests.helpers import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The cache of `double`, and nothing else's."""
    (tmp_path / "kernel.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "kernel", None)  # put back afterwards, whatever `double` has loaded there
    caching._say_once.cache_clear()
    return tmp_path


def double(folder: Path) -> tuple[int, int]:
    """What the kernel says in a process that has not met it, and how often it was found in the cache."""
    spec = spec_from_file_location("kernel", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["kernel"] = module  # a kernel from the cache looks its module up
    spec.loader.exec_module(module)
    kernel = compiled(module.double)
    return kernel(21), sum(kernel.stats.cache_hits.values())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cache").rglob("*") if path.is_file())


def test_a_kernel_is_compiled_once(folder):
    assert [double(folder), double(folder)] == [(42, 0), (42, 1)]
    assert {path.suffix for path in files(folder)} == {".nbi", ".nbc"}


@pytest.mark.parametrize("damage", ["empty", "cut short", "one bit"])
@pytest.mark.parametrize("which", [".nbi", ".nbc"])
def test_a_damaged_file_is_compiled_again_and_whole_afterwards(folder, which, damage):
    double(folder)
    (path,) = (path for path in files(folder) if path.suffix == which)
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 4
    path.write_bytes({"empty": b"", "cut short": data[: len(data) // 2], "one bit": data}[damage])
    assert [double(folder), double(folder)] == [(42, 0), (42, 1)]


def test_an_edit_of_any_kernel_is_noticed(folder, monkeypatch):
    double(folder)
    monkeypatch.setattr(caching, "_contents", lambda: "other sources")
    assert double(folder) == (42, 0)


def test_a_full_disk_names_its_folder_and_training_goes_on(folder, monkeypatch, caplog):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(caching.SealedFiles, "_open_for_write", full)
    assert [double(folder), double(folder)] == [(42, 0), (42, 0)]
    (said,) = caplog.messages
    assert str(folder / "cache") in said
    assert "(No space left on device)" in said
    assert "NUMBA_CACHE_DIR" in said


NOWHERE = """
import models.training.kernels.random as kernels
import numpy, numba, os
state = numpy.zeros(1, numpy.uint64)
kernels.open_stream(state, 1, 2)
print(os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR, *os.listdir(numba.config.CACHE_DIR))
"""


def test_without_a_folder_to_write_to_kernels_are_kept_with_temporary_files_and_that_is_said_once(tmp_path):
    """A file stands where each folder would be, which stops root, too."""
    package = tmp_path / "models" / "training" / "kernels"
    package.mkdir(parents=True)
    for source in (ROOT / "models").glob("*.py"):
        (tmp_path / "models" / source.name).write_bytes(source.read_bytes())
    (package.parent / "__init__.py").write_text("")
    for source in (ROOT / "models" / "training" / "kernels").glob("*.py"):
        (package / source.name).write_bytes(source.read_bytes())
    (package / "__pycache__").write_text("")
    (tmp_path / "temporary").mkdir()
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "TMPDIR": str(tmp_path / "temporary")}
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", NOWHERE], cwd=tmp_path, env={**kept, **nowhere}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True kernels_")
    assert done.stderr.count("compiled kernels are kept in") == 1
    assert str(tmp_path / "temporary") in done.stderr


def test_a_temporary_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(caching.tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"counting-interp-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert not caching.use_temporary_folder()
