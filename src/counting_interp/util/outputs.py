"""What a command may write over. One rule for all of them, applied before any work is done:

- an output is never one of the inputs, whatever `--overwrite` says;
- an output that exists is replaced only where the same command made it, or with `--overwrite`.

What was made by the same command says so itself: a page by its generator tag, a table by its header, the files of a
folder by the list that lies beside them. A checkpoint does not: hours of training may be in it. What is no file (a
device, a pipe, the standard output) is written into.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import is_replaceable, write_atomically

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
    """Refuse where writing to `output` would destroy something.

    Args:
        inputs: files that the command reads, or folders: what is in them is an input unless it is `ours`.
        ours: from the first bytes of a file, whether this command made it.
    """
    if os.path.isdir(output):
        raise OutputError(output, "is a folder; give the name of a file")
    if not os.path.exists(output) or not is_replaceable(output):
        return
    made_here = ours is not None and ours(_head(output))
    for path in inputs:
        inside = not made_here and os.path.isdir(path) and Path(os.path.realpath(path)) in _resolved(output).parents
        if inside or _same(output, path):
            raise OutputError(output, "is one of the inputs; give another output")
    if not made_here and not overwrite:
        raise OutputError(output, "exists and was not made by this command; --overwrite replaces it")


def check_checkpoint_output(output: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """The same for a checkpoint: its ending must be one by which it is found in a folder again."""
    if not output.name.endswith(ENDINGS) and is_replaceable(output) and not os.path.isdir(output):
        raise OutputError(output, f"does not end like a checkpoint; give a name that ends in {', '.join(ENDINGS)}")
    check_output(output, inputs, overwrite)


class OutputFolder:
    """A folder that a command fills: the files in it that it made before, and may make again.

    Args:
        folder: made when something is written into it.
        inputs: files that the command reads.
        overwrite: replace other files, too.
    """

    def __init__(self, folder: Path, inputs: Sequence[Path] = (), overwrite: bool = False) -> None:
        self.folder, self.inputs, self.overwrite = Path(folder), inputs, overwrite
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise OutputError(folder, "is not a folder; give the name of one")
        self._list = self.folder / LIST_NAME
        self.made  # noqa: B018 (refuses a list that is none)

    @property
    def made(self) -> list[str]:
        """The names of all files that were made here, now or before, also by another process."""
        if not os.path.lexists(self._list):
            return []
        if self._list.is_symlink() or not self._list.is_file():
            raise OutputError(self._list, "is no regular file; remove it, or give another folder")
        with open(self._list, "rb") as file:
            return sorted(file.read(MAX_LIST_BYTES).decode("utf-8", "replace").splitlines())

    def check(self, names: Iterable[str]) -> None:
        """Refuse where one of these files would destroy another."""
        for name in names:

            def ours(head: bytes, name: str = name) -> bool:
                return name in self.made

            check_output(self.folder / name, self.inputs, self.overwrite, ours)

    def write(self, name: str, data: bytes) -> Path:
        """One file; it is listed before it is there, so that a kill in between leaves nothing that is not listed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.check([name])
        if name not in self.made:
            with open(self._list, "ab") as file:  # appended in one piece: another process may do the same now
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
    """One file under two names: links of either kind included."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return _resolved(first) == _resolved(second)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))
