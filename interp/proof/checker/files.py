"""Files as bytes, and the two ways in which a check can end without a proof."""

from __future__ import annotations

from pathlib import Path


class Unreadable(Exception):  # noqa: N818 (a reason; the command says which file)
    """Why a checkpoint cannot be used for a check."""


class Refused(Exception):  # noqa: N818 (a reason; the command says which file)
    """Why a certificate proves nothing."""


def content(path: Path, most: int, error: type[Exception]) -> bytes:
    """The bytes of a regular file of at most `most` bytes; else `error` says why not."""
    if not path.exists():
        raise error("does not exist")
    if not path.is_file() or path.stat().st_size > most:
        raise error(f"is not a regular file of at most {most:,} bytes")
    return path.read_bytes()
