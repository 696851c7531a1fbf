"""The cache of compiled kernels on a bad day: files cut short, edits under a running process, a full disk, nowhere to
write."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

from counting_interp.models.training.kernels.compiling import compiled
from counting_interp.util import compiled as kernel_cache
from tests.helpers import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The cache of `double`, and nothing else's."""
    (tmp_path / "kernel.py").write_text("def double(x):\n    return 2 * x\n")
    os.utime(tmp_path / "kernel.py", (1e9, 1e9))  # long before this process began
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "kernel", None)  # put back afterwards, whatever `double` has loaded there
    kernel_cache._say_once.cache_clear()
    return tmp_path


def double(folder: Path, number: float = 21) -> tuple[float, int]:
    """What the kernel says in a process that has not met it, and how often it was found in the cache."""
    spec = spec_from_file_location("kernel", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["kernel"] = module  # a kernel from the cache looks its module up
    spec.loader.exec_module(module)
    kernel = compiled(module.double)
    return kernel(number), sum(kernel.stats.cache_hits.values())


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "cache").rglob("*") if path.is_file())


def test_a_kernel_is_compiled_once(folder):
    assert [double(folder), double(folder)] == [(42, 0), (42, 1)]
    assert len(files(folder)) == 1


def test_processes_that_compile_for_other_types_at_once_write_other_files(folder, monkeypatch):
    """numba's own index would be the last one's, and may name the machine code of the other."""
    double(folder, 21)
    (whole,) = files(folder)
    whole.rename(folder / "aside")  # the second process finds nothing yet
    assert double(folder, 2.5) == (5.0, 0)
    assert whole not in files(folder)
    (folder / "aside").rename(whole)
    assert [double(folder, 21), double(folder, 2.5)] == [(42, 1), (5.0, 1)]


@pytest.mark.parametrize("damage", ["empty", "cut short", "one bit"])
def test_a_damaged_file_is_compiled_again_and_whole_afterwards(folder, damage):
    double(folder)
    (path,) = files(folder)
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 4
    path.write_bytes({"empty": b"", "cut short": data[: len(data) // 2], "one bit": data}[damage])
    assert [double(folder), double(folder)] == [(42, 0), (42, 1)]


def test_an_edit_of_any_source_beside_the_kernel_is_noticed(folder):
    double(folder)
    (folder / "other.py").write_text("")
    os.utime(folder / "other.py", (1e9, 1e9))
    assert [double(folder), double(folder)] == [(42, 0), (42, 1)]


def test_a_process_whose_sources_were_edited_under_it_neither_reads_nor_writes(folder):
    double(folder)
    before = [path.read_bytes() for path in files(folder)]
    os.utime(folder / "kernel.py")
    assert [double(folder), double(folder, 2.5)] == [(42, 0), (5.0, 0)]
    assert [path.read_bytes() for path in files(folder)] == before


def test_all_compiled_functions_are_kept_under_seal():
    for name in (
        "counting_interp.models.training.kernels.epoch",
        "counting_interp.models.training.kernels.sampling",
        "counting_interp.interp.proof.cells",
    ):
        importlib.import_module(name)
    mine = [module for name, module in sys.modules.items() if name.startswith("counting_interp.")]
    found = {value for module in mine for value in vars(module).values() if isinstance(value, Dispatcher)}
    assert len(found) > 40
    assert all(isinstance(kernel._cache._cache_file, kernel_cache.SealedFiles) for kernel in found)


def test_a_full_disk_names_its_folder_and_training_goes_on(folder, monkeypatch, caplog):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kernel_cache.SealedFiles, "_open_for_write", full)
    assert [double(folder), double(folder)] == [(42, 0), (42, 0)]
    (said,) = caplog.messages
    assert str(folder / "cache") in said
    assert "(No space left on device)" in said
    assert "NUMBA_CACHE_DIR" in said


NOWHERE = """
import counting_interp.models.training.kernels.random as kernels
import numpy, numba, os
state = numpy.zeros(1, numpy.uint64)
kernels.open_stream(state, 1, 2)
print(os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR, *os.listdir(numba.config.CACHE_DIR))
"""


def test_without_a_folder_to_write_to_kernels_are_kept_with_temporary_files_and_that_is_said_once(tmp_path):
    """A file stands where each folder would be, which stops root, too."""
    models = tmp_path / "counting_interp" / "models"
    package = models / "training" / "kernels"
    package.mkdir(parents=True)
    for source in (ROOT / "models").glob("*.py"):
        (models / source.name).write_bytes(source.read_bytes())
    (models.parent / "__init__.py").write_text("")
    shutil.copytree(
        ROOT / "src" / "counting_interp" / "util", models.parent / "util", ignore=lambda *_: ["__pycache__"]
    )
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
    monkeypatch.setattr(kernel_cache.tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"counting-interp-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert not kernel_cache.use_temporary_folder()
