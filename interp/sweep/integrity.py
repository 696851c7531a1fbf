"""Is a sweep's database whole? Looked at whenever one is opened, because a broken page may hide any number of runs.

Three things are asked: SQLite's own check of its pages; whether each planned run has the name and the seed that follow
from its axes; whether each row is what was written (by its digest, which databases of older versions lack) and has the
kinds and ranges that `rows` declares.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from counting_interp.interp.sweep.database import TABLES, SweepError, columns, digest
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
        from counting_interp.interp.sweep.rescue import readable

        whole, total = len(readable(database, "results")), _count(database)
        raise SweepError(
            f"{printable(str(path))} is damaged ({printable(str(error))}): {whole} of {total} results are whole; "
            "`interp sweep rescue DIR` keeps these, and `interp sweep run` then makes the others again"
        ) from error


def rows(database: sqlite3.Connection, table: str, where: str = "") -> Iterator[dict[str, Any]]:
    """The columns that this version knows; others have names that a stranger chose."""
    names = [name for name in columns(database, table) if name in TABLES[table]]
    for row in database.execute(f"SELECT {', '.join(names)} FROM {table} {where}") if names else ():
        yield dict(zip(names, row, strict=True))


def whole(table: str, row: Mapping[str, Any]) -> Struct:
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
        result = cast(ResultRow, whole("results", row))
        results[result.name] = result
    measured: dict[str, dict[str, dict[str, Value]]] = {}
    for row in rows(database, "measured"):
        measurement = cast(MeasuredRow, whole("measured", row))
        measured.setdefault(measurement.name, {})[measurement.kind] = measurement.values()
    for row in rows(database, "jobs"):
        planned, job = cast(JobRow, whole("jobs", row)), _job(row)
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
