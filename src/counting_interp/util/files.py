"""Writing files: which files may be replaced, and atomic writes, so that a kill leaves the old file or the new one.

`check_output` is the one rule for the outputs of all commands, applied before any work is done:

- an output is never one of the inputs, whatever `--overwrite` says;
- an output that exists is replaced only where the same command made it, or with `--overwrite`.

A page shows by its generator tag that a command made it, a table by its header, and the files of a folder by the list
beside them. A checkpoint has no such mark, since it may hold hours of training.

`write_atomically` follows a symbolic link and replaces what it points to. A device, a pipe or the standard output is
written into. A writer locks its temporary file, and the system frees the lock when the writer is killed. So a
temporary file of ours that can be locked is a leftover, and the next writer of the same file removes it.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from counting_interp.util.errors import Held, InterpError, printable

fcntl: Any
try:
    import fcntl
except ImportError:  # on Windows a leftover cannot be recognised, and none is removed
    fcntl = None

SUFFIX = ".interp-tmp"
PATIENCE = 10.0  # seconds to wait for the other end of a pipe
ENDINGS = (".pt", ".pth", ".safetensors", ".ckpt")  # of checkpoints
HEAD_BYTES = 4096
LIST_NAME = ".made-by-interp"
MAX_LIST_BYTES = 2**20


class OutputError(InterpError):
    """An output that would destroy something, or cannot be written at all; a mistake in the call, exit code 2."""

    def __init__(self, output: Path, reason: str) -> None:
        super().__init__(f"{printable(str(output))} {reason}")


def check_output(
    output: Path, inputs: Iterable[Path], overwrite: bool, ours: Callable[[bytes], bool] | None = None
) -> None:
    """Refuses an output that would destroy something.

    Args:
        output: the file to be written.
        inputs: files that the command reads. Everything in a folder among them is an input unless it is `ours`.
        overwrite: replace a file that this command did not make.
        ours: tells from the first bytes of a file whether this command made it.

    Raises:
        OutputError: writing `output` would destroy something; the text says what.
    """
    if os.path.isdir(output):
        raise OutputError(output, "is a folder; give the name of a file")
    if not os.path.exists(output) or not is_replaceable(output):
        return
    made_here = ours is not None and ours(_head(output))
    for path in inputs:
        inside = not made_here and os.path.isdir(path) and _resolved(path) in _resolved(output).parents
        if inside or _same(output, path):
            raise OutputError(output, "is one of the inputs; give another output")
    if not made_here and not overwrite:
        raise OutputError(output, "exists and was not made by this command; --overwrite replaces it")


def check_checkpoint_output(output: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """`check_output` for a checkpoint. Its file extension must be one that a search of a folder finds."""
    if not output.name.endswith(ENDINGS) and is_replaceable(output) and not os.path.isdir(output):
        raise OutputError(output, f"does not end like a checkpoint; give a name that ends in {', '.join(ENDINGS)}")
    check_output(output, inputs, overwrite)


class OutputFolder:
    """A folder for the outputs of a command, with a list of the files made in it, which may be replaced.

    Args:
        folder: created with the first file.
        inputs: files that the command reads.
        overwrite: replace other files, too.
    """

    def __init__(self, folder: Path, inputs: Sequence[Path] = (), overwrite: bool = False) -> None:
        self.folder, self.inputs, self.overwrite = Path(folder), inputs, overwrite
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise OutputError(folder, "is not a folder; give the name of one")
        self._list = self.folder / LIST_NAME
        self.made  # noqa: B018 (refuses a list that is not a file)

    @property
    def made(self) -> list[str]:
        """The names of all files that were ever made here, also by another process."""
        if not os.path.lexists(self._list):
            return []
        if self._list.is_symlink() or not self._list.is_file():
            raise OutputError(self._list, "is no regular file; remove it, or give another folder")
        with open(self._list, "rb") as file:
            return sorted(file.read(MAX_LIST_BYTES).decode("utf-8", "replace").splitlines())

    def check(self, names: Iterable[str]) -> None:
        """Refuses if one of these files would destroy another; see `check_output`."""
        made = self.made
        for name in names:
            ours = (lambda _: True) if name in made else None
            check_output(self.folder / name, self.inputs, self.overwrite, ours)

    def write(self, name: str, data: bytes) -> Path:
        """Writes one file. It is listed first, so that a kill leaves no unlisted file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.check([name])
        if name not in self.made:
            with open(self._list, "ab") as file:  # one append: another process may append at the same time
                file.write(f"{name}\n".encode())
        write_atomically(self.folder / name, data)
        return self.folder / name


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def _same(first: Path, second: Path) -> bool:
    """Whether two paths, which may be symbolic or hard links, are the same file."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return _resolved(first) == _resolved(second)


def _resolved(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def write_atomically(path: str | Path, data: bytes) -> None:
    """Writes a temporary file in the same folder and renames it to `path`. Both are synced to disk when it returns."""
    if not is_replaceable(path):
        _write_into(path, data)
        return
    target = _resolved(path)
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
    """Whether writing to `path` creates or replaces a regular file, rather than writing into a device or stream."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(facts.st_mode) and _own_stream(facts) is None


def remove_leftovers(path: str | Path) -> None:
    """Removes the temporary files of killed writers of `path`: those whose lock nobody holds."""
    target = _resolved(path)
    ours = re.compile(re.escape(_prefix(target)) + r"[a-z0-9_]{8}" + re.escape(SUFFIX))
    for name in filter(ours.fullmatch, os.listdir(target.parent) if fcntl else ()):
        # an error means: it is being written, or was removed, or may not be removed
        with suppress(OSError), open(target.parent / name, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (target.parent / name).unlink(missing_ok=True)


@contextmanager
def held(path: str | Path) -> Iterator[None]:
    """Reserves `path` for one process; a second one is refused at once. After a kill the system frees it."""
    target = _resolved(path)
    refusal = f"another run is writing {printable(str(path))}; wait for it, or give another output"
    with locked(target.with_name(f"{_prefix(target)}lock"), refusal):
        yield


@contextmanager
def locked(lock_file: Path, refusal: str) -> Iterator[None]:
    """Holds a lock.

    Raises:
        Held: another process holds it; the text is `refusal`.
        InterpError: `lock_file` is not a regular file.
    """
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
        raise Held(refusal) from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _locked_temporary(target: Path) -> tuple[int, str]:
    """A new locked file beside `target`; created again if another writer removed it before it was locked."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target), suffix=SUFFIX)
        if fcntl is None:
            return handle, temporary
        with suppress(OSError):  # a file system without locks: leftovers stay
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(temporary):
            return handle, temporary
        os.close(handle)


def _write_into(path: str | Path, data: bytes) -> None:
    stream = _own_stream(os.stat(path))
    if stream is None:
        try:
            _write_with_patience(path, data)
        except BrokenPipeError:  # only a reader of our standard output may close early without an error
            raise InterpError(f"the reader of {printable(str(path))} left before everything was written") from None
        return
    sys.stdout.flush()
    with os.fdopen(os.dup(stream), "wb") as file:
        file.write(data)


def read_with_patience(path: str | Path, limit: int) -> bytes:
    """The first `limit` bytes of a file, a device or a pipe.

    Raises:
        InterpError: no bytes arrive for PATIENCE seconds.
    """
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
    """Writes into a device or a pipe.

    Raises:
        InterpError: nobody reads the next bytes for PATIENCE seconds.
    """
    nobody = InterpError(f"nobody reads {printable(str(path))}; start its reader first, or give another output")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:  # a pipe without a reader
                raise nobody from None
            time.sleep(0.05)
    with os.fdopen(handle, "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            if not select.select([], [file], [], PATIENCE)[1]:
                raise nobody
            rest = rest[file.write(rest[: 2**16]) or 0 :]


def _own_stream(facts: os.stat_result) -> int | None:
    """1 or 2 if the file is our standard output or error, else None. Opening it again would overwrite its start."""
    for stream in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(facts, os.fstat(stream)):
                return stream
    return None


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."
