"""Writing a file so that a kill at any moment leaves the old one or the new one, never neither.

A symbolic link is followed: what it points to is replaced. A device, a pipe, or the standard output under whatever name
is written into, as long as somebody takes the bytes. A writer holds a lock on its temporary file, which the system
frees when the writer is killed: a temporary file of ours that can be locked is a leftover, and is removed by whoever
writes to the same place next.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from counting_interp.util.errors import InterpError, printable

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows; nothing can be proved to be a leftover there, and nothing is removed
    fcntl = None

SUFFIX = ".interp-tmp"
PATIENCE = 10.0  # seconds that a pipe may keep us waiting


def write_atomically(path: str | Path, data: bytes) -> None:
    """Temp file in the same folder, flush, fsync, replace, fsync the folder."""
    if not is_replaceable(path):
        _write_into(path, data)
        return
    target = Path(os.path.realpath(path))
    remove_leftovers(target)
    handle, temporary = _locked_temporary(target)
    with os.fdopen(handle, "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(handle)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_replaceable(path: str | Path) -> bool:
    """Whether writing to `path` makes or replaces a regular file, instead of writing into what is there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and _own_stream(found) is None


def remove_leftovers(path: str | Path) -> None:
    """Remove what killed writers of `path` left behind: files with our names whose lock nobody holds."""
    target = Path(os.path.realpath(path))
    ours = re.compile(re.escape(_prefix(target)) + r"[a-z0-9_]{8}" + re.escape(SUFFIX))
    for name in os.listdir(target.parent) if fcntl else ():
        if not ours.fullmatch(name):
            continue
        try:
            with open(target.parent / name, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (target.parent / name).unlink(missing_ok=True)
        except OSError:  # it is being written, or it is gone, or it is not ours to remove
            continue


@contextmanager
def held(path: str | Path) -> Iterator[None]:
    """Keep `path` for one process: a second one that wants it is refused at once. Freed by the system after a kill."""
    target = Path(os.path.realpath(path))
    refusal = f"another run is writing {printable(str(path))}; wait for it, or give another output"
    with locked(target.with_name(f"{_prefix(target)}lock"), refusal):
        yield


@contextmanager
def locked(lock_file: Path, refusal: str) -> Iterator[None]:
    """Hold a lock; where another process has it, an InterpError with this text."""
    from filelock import FileLock, Timeout

    if os.path.lexists(lock_file) and not stat.S_ISREG(os.lstat(lock_file).st_mode):
        raise InterpError(f"{printable(str(lock_file))}, where a lock should be, is no regular file; remove it")
    lock = FileLock(lock_file, blocking=False)
    try:
        lock.acquire()
        while not os.path.exists(lock.lock_file):  # its last holder removed it between our opening and locking it
            lock.release(force=True)
            lock.acquire()
    except Timeout:
        raise InterpError(refusal) from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _locked_temporary(target: Path) -> tuple[int, str]:
    """A new file beside `target`, locked; made again where somebody took it for a leftover before it was locked."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target), suffix=SUFFIX)
        if fcntl is None:
            return handle, temporary
        with suppress(OSError):  # a disk without locks: its leftovers stay
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(temporary):
            return handle, temporary
        os.close(handle)


def _write_into(path: str | Path, data: bytes) -> None:
    stream = _own_stream(os.stat(path))
    if stream is None:
        try:
            _write_with_patience(path, data)
        except BrokenPipeError:  # not ours to be quiet about: only a reader of our standard output may leave early
            raise InterpError(f"the reader of {printable(str(path))} left before everything was written") from None
        return
    sys.stdout.flush()
    with os.fdopen(os.dup(stream), "wb") as file:
        file.write(data)


def read_with_patience(path: str | Path, limit: int) -> bytes:
    """The first `limit` bytes of a file, a device or a pipe; given up where none come for PATIENCE seconds."""
    chunks: list[bytes] = []
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb", buffering=0) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(limit)
        while limit > 0:
            if not select.select([file], [], [], PATIENCE)[0]:
                raise InterpError(f"nobody writes into {printable(str(path))}; start its writer first, or give a file")
            if not (chunk := file.read(min(limit, 2**20))):
                break
            chunks.append(chunk)
            limit -= len(chunk)
    return b"".join(chunks)


def _write_with_patience(path: str | Path, data: bytes) -> None:
    """Write into a device or a pipe, and give up where nobody takes the next bytes for PATIENCE seconds."""
    nobody = InterpError(f"nobody reads {printable(str(path))}; start its reader first, or give another output")
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > given_up:  # a pipe without a reader
                raise nobody from None
            time.sleep(0.05)
    with os.fdopen(handle, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            if not select.select([], [file], [], PATIENCE)[1]:
                raise nobody
            rest = rest[file.write(rest[: 2**16]) or 0 :]


def _own_stream(found: os.stat_result) -> int | None:
    """1 or 2 where a path means our standard output or error: a second opening would begin at its start again."""
    for stream in (1, 2):
        try:
            if os.path.samestat(found, os.fstat(stream)):
                return stream
        except OSError:  # closed
            continue
    return None


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."
