"""Where compiled kernels are kept: numba's cache, with a seal on every file and a folder that can be written to.

numba believes what it finds in its cache: a file that was cut short, by a full disk or a crash, ends in a traceback or
in the death of the process. Here every file begins with a hash of what follows; one that does not hold is removed, and
the kernel is compiled again. The hash covers the sources of all kernels as well: numba looks at the file that holds a
function, not at those of the functions it calls.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import pickle
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile

log = logging.getLogger(__name__)
SEAL = hashlib.sha256().digest_size


class SealedFiles(IndexDataCacheFile):
    """The files of one kernel: an index by types of arguments, and machine code. Written atomically by numba."""

    def _load_index(self) -> dict[Any, str]:
        return self._unsealed(self._index_path) or {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._seal(self._index_path, overloads)

    def _load_data(self, name: str) -> Any:
        return self._unsealed(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._seal(self._data_path(name), data)

    def _hash(self, content: bytes) -> bytes:
        return hashlib.sha256(f"{numba.__version__} {self._source_stamp} ".encode() + content).digest()

    def _unsealed(self, path: str) -> Any:
        """What a file holds; None if there is none, or if it is not whole or not of these sources: then it goes."""
        try:
            data = Path(path).read_bytes()
        except OSError:
            return None
        if data[:SEAL] == self._hash(data[SEAL:]):
            return pickle.loads(data[SEAL:])
        with suppress(OSError):
            os.unlink(path)
        return None

    def _seal(self, path: str, value: Any) -> None:
        content = self._dump(value)
        try:
            with self._open_for_write(path) as file:
                file.write(self._hash(content) + content)
        except OSError as error:
            _say_once(
                f"compiled kernels cannot be kept in {self._cache_path} ({os.strerror(error.errno or errno.EIO)}) and "
                "are compiled again next time; make room there, or name another folder in NUMBA_CACHE_DIR"
            )


def sealed(kernel: Any) -> Any:
    """A kernel of numba's with its cache files sealed by the contents of all kernels."""
    files = kernel._cache._cache_file
    kernel._cache._cache_file = SealedFiles(files._cache_path, files._index_name.removesuffix(".nbi"), _contents())
    return kernel


def use_temporary_folder() -> bool:
    """Let numba keep kernels in a folder of this user for temporary files, in child processes too; False if there is
    none that only this user can write to. Others could put machine code of theirs into it."""
    folder = Path(tempfile.gettempdir(), f"counting-interp-kernels-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
        private = stat.S_ISDIR(facts.st_mode) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not private or (hasattr(os, "getuid") and facts.st_uid != os.getuid()):
            return False
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = str(folder)
    _say_once(f"neither the package nor the home folder can be written to: compiled kernels are kept in {folder}")
    return True


@cache
def _say_once(text: str) -> None:
    log.warning(text)


@cache
def _contents() -> str:
    """A fingerprint of all source files of this package."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
