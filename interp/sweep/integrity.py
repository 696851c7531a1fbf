"""Is a sweep's database intact? Checked whenever one is opened, because a broken page may hide any number of runs.

SQLite checks its pages. Each planned run must have the name and the seed that follow from its axes. Each row must be
what was written (by its digest, which databases of older versions lack) and have the kinds and ranges that `rows`
declares. `rescue` sets a damaged file aside and keeps every row that is intact.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from counting_interp.interp.sweep import database
from counting_interp.interp.sweep.database import (
    FILE,
    LOCKS,
    TABLES,
    SweepError,
    columns,
    digest,
    sqlite_errors_mention,
)
from counting_interp.interp.sweep.grid import SweepJob, read_cell
from counting_interp.interp.sweep.rows import ROWS, JobRow, MeasuredRow, ResultRow, Value, fit
from counting_interp.util.errors import printable, quoted

_NOT_BROKEN = ("locked", "full", "readonly", "unable to open")  # what SQLite says of files that are whole


@dataclass(frozen=True)
class Record:
    """A planned run, with its result if it is finished and what was measured by kind.

    Attributes:
        result: its row in `results`; None if it is not finished.
        measured: by kind (verdict, proof), the columns of each.
    """

    job: SweepJob
    parameters: int
    result: ResultRow | None = None
    measured: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str | None:
        return None if self.result is None else self.result.checkpoint


def check(database: sqlite3.Connection, path: Path, *, pages: bool = True) -> list[Record]:
    """Every planned run in order; a SweepError that says how much is whole if not all of it is."""
    try:
        if pages and (trouble := database.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise ValueError(trouble)
        return sorted(_records(database), key=lambda record: (tuple(vars(record.job.cell).values()), record.job.run))
    except (ValueError, sqlite3.DatabaseError) as error:
        if any(words in str(error) for words in _NOT_BROKEN):
            raise
        whole, total = len(readable(database, "results")), _count(database)
        raise SweepError(
            f"{printable(str(path))} is damaged ({printable(str(error))}): {whole} of {total} results are whole; "
            "`interp sweep rescue DIR` keeps these, and `interp sweep run` then makes the others again"
        ) from error


def rows(database: sqlite3.Connection, table: str, where: str = "") -> Iterator[dict[str, Any]]:
    """The columns that this version knows; others may have any name."""
    names = [name for name in columns(database, table) if name in TABLES[table]]
    for row in database.execute(f"SELECT {', '.join(names)} FROM {table} {where}") if names else ():
        yield dict(zip(names, row, strict=True))


def intact_row(table: str, row: Mapping[str, Any]) -> Struct:
    """The row as its declared type. Raises ValueError, with the reason, where it cannot be what was written."""
    if row.get("digest") is not None and row["digest"] != digest(row):
        raise ValueError(f"the values of {quoted(row.get('name'), 100)} are not those that were written")
    fitted = fit(row, ROWS[table])
    if table == "jobs":
        _job(row)
    elif isinstance(fitted, MeasuredRow):
        fitted.values()
    return fitted


def _records(database: sqlite3.Connection) -> Iterator[Record]:
    results: dict[str, ResultRow] = {}
    for row in rows(database, "results"):
        result = cast(ResultRow, intact_row("results", row))
        results[result.name] = result
    measured: dict[str, dict[str, dict[str, Value]]] = {}
    for row in rows(database, "measured"):
        measurement = cast(MeasuredRow, intact_row("measured", row))
        measured.setdefault(measurement.name, {})[measurement.kind] = measurement.values()
    for row in rows(database, "jobs"):
        planned, job = cast(JobRow, intact_row("jobs", row)), _job(row)
        yield Record(job, planned.parameters, results.pop(job.name, None), measured.get(job.name, {}))
    if results:
        raise ValueError(f"{len(results)} results belong to no planned run")


def _job(row: Mapping[str, Any]) -> SweepJob:
    job = SweepJob(read_cell(row), row["run"])
    if (job.name, job.seed) != (row["name"], row["seed"]):
        raise ValueError(f"the axes of {quoted(row['name'], 100)} do not fit its name and seed")
    return job


def _count(database: sqlite3.Connection) -> str:
    try:
        return str(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.DatabaseError:
        return "an unknown number of"


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
    with ExitStack() as resources, sqlite_errors_mention(path):
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
                intact_row(table, row)
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
