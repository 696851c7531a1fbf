"""Errors addressed to the user: the command line prints their text without a traceback."""

from __future__ import annotations

from pathlib import Path

OWN_MODEL = "Is it your own transformer? `--adapter my_model.py:load` opens it; see docs/your-own-model.md"


class InterpError(Exception):
    """An error that the user can act on; its text says what arrived and what to do next."""


class Held(InterpError):  # noqa: N818 (an answer, rather than a failure)
    """Another process is writing there."""


class MissingPoint(InterpError):  # noqa: N818 (an answer, rather than a failure)
    """The model has no hook point of this name; the text lists those it has."""


class AdapterWarning(UserWarning):
    """An adapted model has a property that keeps it from counting."""


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


class Refused(Exception):  # noqa: N818 (a reason, not an error that a caller meets)
    """The reason why the content of a file is rejected. The reader of the file adds its name."""


def printable(text: str, limit: int = 200) -> str:
    """`text` cut to `limit` characters, with control characters replaced, so that it cannot control a terminal."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def quoted(value: object, limit: int = 60) -> str:
    """A value from a file, for a message: text and numbers as Python writes them, anything else by its type.

    Containers are not formatted: the text of a small tree with shared nodes can exceed the memory.
    """
    if isinstance(value, str):
        return printable(repr(value[: limit + 1]), limit)
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and value.bit_length() <= 64):
        return repr(value)
    return f"a {printable(type(value).__name__, limit)}"
