"""Answers on disk: one SQLite file in which every batch is one transaction.

At temperature zero an answer depends on the model and the text alone, so the text is the key: a run that was killed at
any moment resumes with the batch that is missing, and a run with more lists, another prompt or another category asks
only what is new. What must agree between two runs on one file (the model's weights, their type, how numbers are
written) is written down in it and compared.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, convert
from msgspec.json import decode

from counting_interp.util.errors import InterpError, printable
from counting_interp.util.plain_json import to_json

Probabilities = Annotated[tuple[Annotated[float, Meta(ge=0, le=1.001)], ...], Meta(min_length=2)]  # 1.001: rounding
NAME = "answers.sqlite"
LAYOUT = """
CREATE TABLE IF NOT EXISTS identity (field TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    text TEXT PRIMARY KEY,
    probabilities TEXT NOT NULL,
    generated TEXT
);
"""


@dataclass(frozen=True)
class Answer:
    """What a model says to one text.

    Attributes:
        probabilities: of the counts 0..length, from the next-token distribution.
        generated: the greedy continuation, or None if it was not asked for.
    """

    probabilities: tuple[float, ...]
    generated: str | None

    @property
    def count(self) -> int:
        """The most probable count."""
        return max(range(len(self.probabilities)), key=self.probabilities.__getitem__)


class Store:
    """The answers of one model, in memory and, if there is a folder, on disk.

    Args:
        folder: where the file lies; None keeps answers in memory.
        identity: what must be the same in all runs that share the file.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self.path = None if folder is None else folder / NAME
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._connect()
            self._check({field: json.dumps(value, sort_keys=True) for field, value in identity.items()})
            rows = self._database.execute("SELECT text, probabilities, generated FROM answers")
            self.answers = dict(_checked(*row) for row in rows)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}; choose another output folder"
            raise InterpError(f"{printable(str(folder))} {reason}") from error
        except (sqlite3.Error, ValueError) as error:
            raise InterpError(f"{self._shown}: {_reason(error)}") from error

    def _connect(self) -> None:
        self._database = sqlite3.connect(self.path or ":memory:", timeout=0)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")  # two runs on one file would repeat each other's work
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(LAYOUT)

    def _check(self, identity: dict[str, str]) -> None:
        stored = dict(self._database.execute("SELECT field, value FROM identity"))
        for field in sorted(stored.keys() | identity.keys()) if stored else ():
            if stored.get(field) != identity.get(field):
                before, now = (printable(str(values.get(field)), 80) for values in (stored, identity))
                raise ValueError(
                    f"its answers were given with {field} = {before}, this run has {now}; use another output folder"
                )
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO identity VALUES (?, ?)", identity.items())

    def add(self, answers: Iterable[tuple[str, Answer]]) -> None:
        """All of them, or none."""
        new = dict(answers)
        rows = [(text, to_json(answer.probabilities), answer.generated) for text, answer in new.items()]
        try:
            for row in rows:
                _checked(*row)
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, ValueError) as error:
            raise InterpError(f"{self._shown}: {_reason(error)}") from error
        self.answers.update(new)

    @property
    def _shown(self) -> str:
        return "answers in memory" if self.path is None else printable(str(self.path))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(text: Any, shares: Any, generated: Any) -> tuple[str, Answer]:
    """A row of the file, which anybody may have changed: probabilities of two counts or more, and a text or none."""
    try:
        probabilities = decode(shares, type=Probabilities)
        return convert(text, str), Answer(probabilities, convert(generated, str | None))
    except (TypeError, ValueError) as error:  # msgspec's own are among them
        row = printable(repr(text), 80)
        raise ValueError(f"the answer to {row} cannot be used: {printable(str(error), 120)}; delete that row") from None


def _reason(error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full; make room, and the same command resumes"
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return "another run is writing to this folder; wait for it, or use another one"
    if isinstance(error, sqlite3.DatabaseError):
        return f"this is not a readable file of answers ({error}); move it away to start again"
    return str(error)
