"""From a path to the bytes of a regular file of bearable size, or a refusal. Nothing here can block or fill memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from counting_interp.models.checkpoint.contents import MAX_FILE_BYTES, Refused

_NEXT = "give a .pt or .safetensors file"


def read_bytes(path: str | Path) -> bytes:
    """The whole file, at most MAX_FILE_BYTES. Opened without blocking, so that a FIFO cannot hold us."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Refused(_why_not(path, error)) from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise Refused(f"is {_kind(info.st_mode)}, not a regular file; {_NEXT}")
        if info.st_size > MAX_FILE_BYTES:
            raise Refused(f"is {info.st_size:,} bytes long; checkpoints of more than {MAX_FILE_BYTES:,} are not read")
        data = os.read(handle, info.st_size + 1)  # at once, so that it is in memory once
        while len(data) <= info.st_size and (more := os.read(handle, info.st_size + 1 - len(data))):
            data += more
        if len(data) > info.st_size:
            raise Refused("grows while it is read; copy it first")
        return data
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror}); check the disk") from None
    finally:
        os.close(handle)


def _why_not(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            return f"is a link to a file that does not exist; {_NEXT}"
        return f"does not exist; {_NEXT}"
    if isinstance(error, PermissionError):
        return "may not be read by you; change its permissions or copy it"
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror}); {_NEXT}"
    return f"is no possible file name; {_NEXT}"


def _kind(mode: int) -> str:
    kinds = {
        "a directory": stat.S_ISDIR,
        "a pipe": stat.S_ISFIFO,
        "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, test in kinds.items() if test(mode)), "something unusual")
