"""Functions compiled by numba, in fast or strict arithmetic, with a cache that only the user can write to.

`compiled` is for training: sums may be reordered and products fused at compile time. Both are fixed once compiled, so
the same input gives the same bits. `strictly_compiled` is for proofs: every operation is computed as written. Where
numba does not load, functions stay Python.

Machine code from a file is run. So the cache is a folder that only the user can write to: NUMBA_CACHE_DIR, or a folder
in the user's cache, or one for temporary files. Without such a folder nothing is cached.

numba's own cache is not enough. It trusts a file that a full disk truncated. Its index can name the code of another
process when two compile one function for different types at once. It checks the source of a function, not the sources
of the functions inlined into it. Here the name of a file identifies types, processor and byte code. The file begins
with a hash of its content and of all sources beside the function. If the hash does not match, the file is removed and
the function compiled again. A process whose sources were edited while it ran does not use the cache.
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
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from counting_interp.util.errors import InterpError

WHY_NOT_COMPILED: str | None = None
try:
    import llvmlite
    import numba
    from numba.core.caching import IndexDataCacheFile
except Exception as error:  # a broken installation, or NUMBA_NUM_THREADS=0, raises more than ImportError
    numba, IndexDataCacheFile = None, object
    WHY_NOT_COMPILED = f"numba, which compiles the kernels, does not load ({type(error).__name__}: {error})"
else:
    if numba.config.DISABLE_JIT:
        WHY_NOT_COMPILED = "numba, which compiles the kernels, is switched off by NUMBA_DISABLE_JIT"

log = logging.getLogger(__name__)
SEAL = hashlib.sha256().digest_size
STARTED = time.time_ns()
# NaN and infinity keep their meaning, so that a run that diverges is seen to diverge.
_FAST = frozenset({"contract", "nsz", "reassoc"})


def compiled(function: Callable[..., Any], *, inlined: bool = False) -> Any:
    """`function` as machine code in fast arithmetic, without the wrapper of a run-time type checker.

    Such functions allocate nothing, so they are compiled without reference counting.
    """
    if WHY_NOT_COMPILED:
        return function
    options = {"error_model": "numpy", "_nrt": False, "forceinline": inlined}
    return kept(numba.njit(fastmath=set(_FAST), **options)(inspect.unwrap(function)))


# For functions that are called often: a call passes nine numbers per matrix, which can cost more than its loop.
inlined = partial(compiled, inlined=True)


def strictly_compiled(function: Callable[..., Any]) -> Any:
    """`function` as machine code in which every operation is rounded as IEEE 754 says.

    Raises:
        InterpError: numba does not load. (If it is switched off, the function stays Python: slower, equal numbers.)
    """
    if numba is None:
        raise InterpError(f"{WHY_NOT_COMPILED}; proofs need it")
    return kept(numba.njit(error_model="numpy")(inspect.unwrap(function)))


def kept(function: Any) -> Any:
    """A numba function whose machine code is cached on disk until a source file in its folder changes."""
    if not hasattr(function, "enable_caching"):  # numba is switched off
        return function
    folder = private_folder(numba.config.CACHE_DIR)
    if folder is None:
        return function
    chosen, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        function.enable_caching()
    except RuntimeError:  # numba finds no folder for its cache
        return function
    finally:
        numba.config.CACHE_DIR = chosen
    files = function._cache._cache_file
    os.chmod(files._cache_path, 0o700)
    sources = Path(inspect.getfile(function.py_func)).parent
    function._cache._cache_file = SealedFiles(files._cache_path, files._index_name.removesuffix(".nbi"), sources)
    return function


@cache
def private_folder(chosen: str = "") -> Path | None:
    """A folder that only the user can write to: `chosen` or, without it, the first usual one; None if there is none."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    usual = (home / "counting-interp", Path(tempfile.gettempdir(), f"counting-interp-{user}"))
    for folder in (Path(chosen),) if chosen else usual:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(folder):
                tempfile.TemporaryFile(dir=folder).close()
                return folder
    where = f"{chosen} can be written to by others, or not at all" if chosen else "no folder is the user's alone"
    _say_once(f"{where}: compiled kernels are not kept; name a folder of your own in NUMBA_CACHE_DIR")
    return None


def _is_private(folder: Path) -> bool:
    """Whether it is a folder (not a link) of this user that no other user can write to or replace."""
    facts, above = folder.lstat(), folder.parent.stat()
    if not stat.S_ISDIR(facts.st_mode) or (hasattr(os, "getuid") and facts.st_uid != os.getuid()):
        return False
    replaceable = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
    return not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not replaceable


class SealedFiles(IndexDataCacheFile):
    """The cache files of one function, one per set of types and kind of processor. numba writes them atomically."""

    def __init__(self, cache_path: str, name: str, sources: Path) -> None:
        super().__init__(cache_path, name, None)
        self._name, self._sources = name, sources

    def load(self, key: Any) -> Any:
        """The code saved for a key, or None. A file that is damaged, or made from other sources, is removed."""
        sources, path = self._fingerprint(), self._path(key)
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
        sources, content = self._fingerprint(), self._dump(data)
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

    def _fingerprint(self) -> bytes | None:
        """A hash of all sources that the code may depend on; None if one was edited since the process began."""
        try:
            files = (Path(__file__), *sorted(self._sources.glob("*.py")))
            times = tuple((file, file.stat().st_mtime_ns) for file in files)
            edited = any(STARTED <= changed <= time.time_ns() for _, changed in times)
            return None if edited else _hash_of(times)
        except OSError:  # an editor replaced the file meanwhile
            return None


@cache
def _say_once(text: str) -> None:
    log.warning(text)


@cache
def _hash_of(times: tuple[tuple[Path, int], ...]) -> bytes:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path, _ in times)).digest()


def _seal(sources: bytes, content: bytes) -> bytes:
    versions = f"{numba.__version__} {llvmlite.__version__} ".encode()
    return hashlib.sha256(versions + sources + content).digest()
