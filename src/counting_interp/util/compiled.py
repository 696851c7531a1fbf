"""Where compiled code is kept: numba's cache, with a seal on every file and a folder that can be written to.

numba believes what it finds in its cache: a file that was cut short, by a full disk or a crash, ends in a traceback or
in the death of the process. It keeps an index of its files for every function, and two processes that compile one
function for other types at the same moment can leave an index that names the other's code. And it looks at the file
that holds a function, not at those of the functions that it calls.

Here every file is named for what it was compiled from (types of arguments, processor, byte code) and begins with a hash
of what follows and of all sources beside the function. One that does not hold is removed, and the function is compiled
again. A process whose sources were edited while it ran neither reads nor writes: nobody knows which of them it runs.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import logging
import os
import pickle
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import IndexDataCacheFile

log = logging.getLogger(__name__)
SEAL = hashlib.sha256().digest_size
STARTED = time.time_ns()


class SealedFiles(IndexDataCacheFile):
    """The files of one function, one for each set of types and kind of processor. numba writes them atomically."""

    def __init__(self, cache_path: str, name: str, folders: Iterable[Path]) -> None:
        super().__init__(cache_path, name, None)
        self._name, self._folders = name, frozenset(folders)

    def load(self, key: Any) -> Any:
        """What was saved for a key; None if there is nothing, or if it is not whole or not of these sources: then it
        goes."""
        sources, path = self._sources(), self._path(key)
        try:
            data = Path(path).read_bytes()
        except OSError:
            return None
        if sources is None:
            return None
        if data[:SEAL] == _seal(sources, data[SEAL:]):
            return pickle.loads(data[SEAL:])
        with suppress(OSError):
            os.unlink(path)
        return None

    def save(self, key: Any, data: Any) -> None:
        sources, content = self._sources(), self._dump(data)
        if sources is None:
            return
        try:
            with self._open_for_write(self._path(key)) as file:
                file.write(_seal(sources, content) + content)
        except OSError as error:
            _say_once(
                f"compiled kernels cannot be kept in {self._cache_path} ({os.strerror(error.errno or errno.EIO)}) and "
                "are compiled again next time; make room there, or name another folder in NUMBA_CACHE_DIR"
            )

    def _path(self, key: Any) -> str:
        return self._data_path(f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc")

    def _sources(self) -> bytes | None:
        """A fingerprint of all sources that the code may be made of; None if one was edited since the process began."""
        try:
            files = sorted(file for folder in self._folders for file in folder.glob("*.py"))
            times = tuple((file, file.stat().st_mtime_ns) for file in files)
            edited = any(STARTED <= changed <= time.time_ns() for _, changed in times)
            return None if edited else _fingerprint(times)
        except OSError:  # a file that is gone again, as editors do it
            return None


def kept(function: Any, *callees: Path) -> Any:
    """A function of numba's with its machine code kept on disk, until a source file in its own folder, or in those of
    functions from elsewhere that it calls, is another one."""
    try:
        function.enable_caching()
    except RuntimeError:  # no folder that numba could keep it in
        if not use_temporary_folder():
            return function
        function.enable_caching()
    files = function._cache._cache_file
    own = Path(inspect.getfile(function.py_func)).parent
    function._cache._cache_file = SealedFiles(
        files._cache_path, files._index_name.removesuffix(".nbi"), (own, *callees)
    )
    return function


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
def _fingerprint(times: tuple[tuple[Path, int], ...]) -> bytes:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path, _ in times)).digest()


def _seal(sources: bytes, content: bytes) -> bytes:
    versions = f"{numba.__version__} {llvmlite.__version__} ".encode()
    return hashlib.sha256(versions + sources + content).digest()
