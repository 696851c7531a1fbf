"""The cache of compiled kernels on a bad day: files cut short, edits under a running process, a full disk, nowhere to
write."""

from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numba
import pytest
from numba.core.dispatcher import Dispatcher

from counting_interp.util import compiled as kernel_cache
from counting_interp.util.compiled import compiled


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The cache of `double`, and nothing else's."""
    (tmp_path / "kernel.py").write_text("def double(x):\n    return 2 * x\n")
    os.utime(tmp_path / "kernel.py", (1e9, 1e9))  # long before this process began
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "kernel", None)  # put back afterwards, whatever `double` has loaded there
    kernel_cache._say_once.cache_clear()
    kernel_cache.private_folder.cache_clear()
    return tmp_path


def double(folder: Path, number: float = 21) -> tuple[float, int]:
    """The answer of the kernel in a new process, and how often it was in the cache."""
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
        "counting_interp.models.training.kernels.batches",
        "counting_interp.interp.proof.cells",
    ):
        importlib.import_module(name)
    mine = [module for name, module in sys.modules.items() if name.startswith("counting_interp.")]
    kernels = {value for module in mine for value in vars(module).values() if isinstance(value, Dispatcher)}
    assert len(kernels) > 40
    assert all(isinstance(kernel._cache._cache_file, kernel_cache.SealedFiles) for kernel in kernels)


def test_a_full_disk_names_its_folder_and_training_goes_on(folder, monkeypatch, caplog):
    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kernel_cache.SealedFiles, "_open_for_write", full)
    assert [double(folder), double(folder)] == [(42, 0), (42, 0)]
    (said,) = caplog.messages
    assert str(folder / "cache") in said
    assert "(No space left on device)" in said
    assert "NUMBA_CACHE_DIR" in said


KEPT = """
import sys, numpy
import counting_interp.models.training.kernels.batches as kernels
from counting_interp.util.compiled import WHY_NOT_COMPILED, private_folder
kernels.open_stream(numpy.zeros(1, numpy.uint64), 1, 2)
folder = None if WHY_NOT_COMPILED else private_folder("")
print(WHY_NOT_COMPILED, folder, bool(folder and list(folder.rglob("*.nbc"))))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    done = subprocess.run([sys.executable, "-c", code], env=usual | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_without_a_home_kernels_are_kept_with_temporary_files(tmp_path):
    """A file stands where each folder would be, which stops root, too."""
    done = run(KEPT, HOME=os.devnull, XDG_CACHE_HOME=os.devnull, TMPDIR=str(tmp_path))
    assert done.stdout == f"None {tmp_path / f'counting-interp-{os.getuid()}'} True\n"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_machine_code_in_a_folder_that_others_can_write_to_is_not_run(folder, mode, caplog):
    """Its seal is a hash of public facts: others could put their code under a seal that holds."""
    (folder / "cache").mkdir()
    double(folder)
    assert len(files(folder)) == 1
    (folder / "cache").chmod(mode)
    kernel_cache.private_folder.cache_clear()
    assert [double(folder), double(folder)] == [(42, 0), (42, 0)]
    (said,) = caplog.messages
    assert "can be written to by others" in said
    assert "NUMBA_CACHE_DIR" in said


def test_a_folder_of_somebody_else_or_behind_a_link_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert kernel_cache.private_folder(str(tmp_path / "mine")) is not None
    assert kernel_cache.private_folder(str(tmp_path / "link")) is None
    kernel_cache.private_folder.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert kernel_cache.private_folder(str(tmp_path / "mine")) is None
    kernel_cache.private_folder.cache_clear()


def test_a_folder_that_others_could_replace_is_not_used(tmp_path):
    (tmp_path / "shared" / "mine").mkdir(parents=True, mode=0o700)
    (tmp_path / "shared").chmod(0o777)
    assert kernel_cache.private_folder(str(tmp_path / "shared" / "mine")) is None


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [("NUMBA_DISABLE_JIT", "1", "is switched off by NUMBA_DISABLE_JIT"), ("NUMBA_NUM_THREADS", "0", "does not load")],
)
def test_without_numba_functions_stay_python_and_say_why(tmp_path, variable, value, why):
    done = run(KEPT, TMPDIR=str(tmp_path), **{variable: value})
    assert why in done.stdout
    assert "None False" in done.stdout


def test_proofs_without_numba_are_refused_in_a_sentence():
    code = """
import counting_interp.util.compiled as c
from counting_interp.util.errors import InterpError
try:
    c.strictly_compiled(len)
except InterpError as error:
    print(error)
"""
    assert "does not load (ValueError" in run(code, NUMBA_NUM_THREADS="0").stdout
