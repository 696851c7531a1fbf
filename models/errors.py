"""Errors that are addressed to a person: the command line prints their text alone, without a traceback."""

from __future__ import annotations

from pathlib import Path


class InterpError(Exception):
    """Something that the user can act on; its text says what arrived and what to do next."""


class CheckpointError(InterpError):
    """A file was refused: unreadable, broken, hostile, or not a counting model.

    Attributes:
        path: the file, as it was given.
        reason: what is wrong, and what to do next, in one or two sentences.
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(f"{printable(self.path)}: {reason}")


def printable(text: str, limit: int = 200) -> str:
    """`text` without control characters and cut to `limit`: nothing in a name can steer a terminal."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
