"""The SQLite file of a sweep: its tables, derived from the axes; locks; and errors a person can act on.

jobs      every planned run: its axes, index, seed and number of trained weights
results   every finished one: accuracies, curves, seconds, checkpoint
measured  what was found out about finished ones, by kind (verdict, proof), as JSON

Tables and columns that an older version did not have are added when a sweep resumes. Each row of a result carries a
digest of its values, because SQLite notices broken pages, not flipped bits inside a value.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from counting_interp.interp.sweep.grid import AXIS_DEFAULTS, AXIS_TYPES
from counting_interp.interp.sweep.rows import CHECKPOINTS
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import locked

FILE = "sweep.sqlite"
TRAINING, CLASSIFYING = "training", "classifying"
LOCKS = {TRAINING: ".lock", CLASSIFYING: ".classify.lock"}
VERSION = 1
_SQL_TYPES = {"str": "TEXT", "int": "INTEGER", "bool": "INTEGER", "float": "REAL"}
_JOBS = {axis: _SQL_TYPES[kind] for axis, kind in AXIS_TYPES.items()}
TABLES: dict[str, dict[str, str]] = {
    "jobs": {"name": "TEXT PRIMARY KEY", **_JOBS, "run": "INTEGER", "seed": "INTEGER", "parameters": "INTEGER"},
    "results": {
        "name": "TEXT PRIMARY KEY REFERENCES jobs",
        "final": "REAL",
        "best": "REAL",
        "loss": "REAL",
        "losses": "TEXT",
        "accuracies": "TEXT",
        "seconds": "REAL",
        "checkpoint": "TEXT",
        "finished": "TEXT",
        "version": "TEXT",
        "digest": "TEXT",
    },
    "measured": {
        "name": "TEXT REFERENCES jobs",
        "kind": "TEXT",
        "row": "TEXT",
        "seconds": "REAL",
        "finished": "TEXT",
        "version": "TEXT",
        "digest": "TEXT",
        "PRIMARY KEY": "(name, kind)",
    },
}
_COMPUTES = re.compile(r"\b(AS|CHECK|COLLATE|GENERATED|SELECT|VIRTUAL)\b", re.IGNORECASE)
_TABLES_OF = {TRAINING: ("jobs", "results", "measured"), CLASSIFYING: ("measured",)}


class SweepError(InterpError):
    """Something is wrong with a sweep's folder; the text says what is lost and how to continue."""


def hold(folder: Path, work: str, resources: ExitStack) -> None:
    """Make the folder if need be, and keep others from the same work in it, for as long as `resources` are open."""
    what = "sweep" if work == TRAINING else "classification"
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        refusal = f"another {what} is running in {_shown(folder)}; wait for it, or stop it"
        resources.enter_context(locked(folder / LOCKS[work], refusal))
    except InterpError as error:
        raise SweepError(str(error)) from error
    except OSError as error:
        raise SweepError(f"cannot write into {_shown(folder)}: {error.strerror}") from error


def connect(folder: Path, works: Sequence[str], resources: ExitStack) -> sqlite3.Connection:
    """Open the database of a sweep, for reading where `works` is empty, and complete its tables otherwise."""
    path = folder / FILE
    with sqlite_errors_mention(path):
        database = resources.enter_context(closing(open_plain(path)))
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and TRAINING in works and _is_new(folder):
            database.execute("BEGIN")
            database.execute(f"PRAGMA user_version = {VERSION}")
            complete(database, TABLES)
            database.commit()
            version = VERSION
        elif version == VERSION:
            with database:
                complete(database, [table for work in works for table in _TABLES_OF[work]])
        # a killed coordinator leaves the old state or the new one; FULL also survives a power failure
        database.execute("PRAGMA synchronous = FULL")
    if version == 0:
        raise SweepError(
            f"{_shown(path)} is empty: the results of the runs are lost, their checkpoints are still there; "
            "remove the file, and `interp sweep run` makes the runs again"
        )
    if version != VERSION:
        raise SweepError(f"{_shown(path)} has format {version}; this version reads {VERSION}")
    return database


def open_plain(path: Path) -> sqlite3.Connection:
    """Open a file of SQLite that holds plain tables and nothing that computes: no view, trigger, generated column or
    check. An untrusted one could take any time and memory as soon as somebody reads from it."""
    if path.exists() and not path.is_file():
        raise SweepError(f"{_shown(path)} is no regular file; remove it, or give another folder")
    database = sqlite3.connect(path, timeout=60)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        for kind, name, sql in database.execute("SELECT type, name, sql FROM sqlite_master"):
            known = kind == "table" and name in TABLES and isinstance(sql, str) and not _COMPUTES.search(sql)
            if not known and not str(name).startswith("sqlite_"):
                what = f"{printable(str(kind), 20)} {printable(str(name), 60)}"
                raise SweepError(f"{_shown(path)} is no sweep's database: no sweep makes such a {what}")
    except BaseException:
        database.close()
        raise
    return database


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    """Those that the table really has; none if it is not there."""
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def insert(database: sqlite3.Connection, table: str, values: Mapping[str, Any], *, how: str = "INSERT") -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    database.execute(f"{how} INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


def digest(values: Mapping[str, Any]) -> str:
    """Of the values of a row as SQLite gives them back; NaN, which it keeps as NULL, counts as None."""
    plain = [None if value != value else value for name, value in sorted(values.items()) if name != "digest"]
    return hashlib.sha256(json.dumps(plain, default=repr).encode()).hexdigest()[:16]


@contextmanager
def sqlite_errors_mention(path: Path) -> Iterator[None]:
    """What goes wrong in SQLite or in writing becomes one sentence that says how to continue."""
    try:
        yield
    except sqlite3.Error as error:
        raise SweepError(_sentence(path, str(error))) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO):
            raise
        reason = error.strerror or str(error)
        raise SweepError(_sentence(Path(error.filename or path), reason)) from error


def _sentence(path: Path, reason: str) -> str:
    full = any(words in reason.lower() for words in ("disk is full", "no space", "quota"))
    broken = any(words in reason.lower() for words in ("malformed", "not a database", "corrupt"))
    if full:
        advice = "finished runs are kept; make room, and the same command resumes"
    elif broken:
        advice = "`interp sweep rescue DIR` keeps what can still be read"
    elif "locked" in reason:
        advice = "another program holds it; try again when that has ended"
    else:
        advice = "finished runs are kept; mend that, and the same command resumes"
    return f"{_shown(path)}: {printable(reason)}; {advice}"


def _is_new(folder: Path) -> bool:
    """No file, or one that a killed coordinator left empty before the first run ended."""
    empty = not (folder / FILE).exists() or (folder / FILE).stat().st_size == 0
    return empty and not any((folder / CHECKPOINTS).glob("*.pt"))


def complete(database: sqlite3.Connection, tables: Sequence[str] | Mapping[str, Any]) -> None:
    """Make missing tables and columns; a new axis has its default in the rows that are there."""
    for table in tables:
        wanted, there = TABLES[table], columns(database, table)
        if not there:
            database.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in wanted.items())})")
            continue
        for name, kind in wanted.items():
            if name not in there and name != "PRIMARY KEY":
                default = f" DEFAULT {_literal(AXIS_DEFAULTS[name])}" if table == "jobs" else ""
                database.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}{default}")


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value + 0)  # True is 1


def _shown(path: str | Path) -> str:
    return printable(str(path))
