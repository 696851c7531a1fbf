"""A damaged database: set it aside, and begin a new one with every row that can still be read and is whole."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.sweep import database
from counting_interp.interp.sweep.database import FILE, LOCKS, TABLES, SweepError, speaking_of
from counting_interp.interp.sweep.integrity import rows, whole
from counting_interp.util.errors import printable

NUMBERS_PER_PAGE = 1024  # of rows, at most: a page holds fewer than 64 of ours, and rows that were replaced had numbers


@dataclass(frozen=True)
class Rescue:
    """Where the damaged file is now, and how many rows of each table were kept."""

    damaged: Path
    kept: dict[str, int]


def rescue(folder: str | Path) -> Rescue:
    """Results without their planned run are planned by the next `interp sweep run`; until then they are left out."""
    folder = Path(folder)
    path, damaged = folder / FILE, folder / f"{FILE}.damaged"
    if not path.is_file():
        raise SweepError(f"{printable(str(folder))} holds no sweep ({FILE})")
    if damaged.exists():
        raise SweepError(f"{printable(str(damaged))} is there from an earlier rescue; move it away first")
    with ExitStack() as resources, speaking_of(path):
        for work in LOCKS:
            database.hold(folder, work, resources)
        found = _everything(path)
        planned = {row["name"] for row in found["jobs"]}
        fresh = folder / f"{FILE}.new"
        fresh.unlink(missing_ok=True)
        with closing(sqlite3.connect(fresh)) as new, new:
            new.execute(f"PRAGMA user_version = {database.VERSION}")
            database.complete(new, TABLES)
            for table, kept in found.items():
                found[table] = [row for row in kept if row["name"] in planned]
                for row in found[table]:
                    database.insert(new, table, row)
        path.replace(damaged)
        for journal in folder.glob(f"{FILE}-*"):
            journal.replace(folder / f"{journal.name}.damaged")
        fresh.replace(path)
    return Rescue(damaged, {table: len(kept) for table, kept in found.items()})


def readable(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """The rows of a table that can be read and are whole: one by one, because one broken page ends any longer query."""
    found: list[dict[str, Any]] = []
    last = connection.execute("PRAGMA page_count").fetchone()[0] * NUMBERS_PER_PAGE
    with suppress(sqlite3.DatabaseError):
        last = min(last, connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0)
    for number in range(1, last + 1):
        try:
            for row in rows(connection, table, f"WHERE rowid = {number}"):
                whole(table, row)
                found.append(row)
        except (sqlite3.DatabaseError, ValueError):
            continue
    return found


def _everything(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        with closing(database.open_plain(path)) as old:
            return {table: readable(old, table) for table in TABLES}
    except sqlite3.DatabaseError:  # not even its first page
        return {table: [] for table in TABLES}
