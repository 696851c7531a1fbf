"""Is a sweep's database whole? Looked at whenever one is opened, because a broken page may hide any number of runs.

Three things are asked: SQLite's own check of its pages; whether each planned run has the name and the seed that follow
from its axes; whether each result is what was written (by its digest, or, in databases of older versions, at least a
result that a run can have).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counting_interp.interp.sweep.database import CHECKPOINTS, SweepError, columns, digest
from counting_interp.interp.sweep.grid import SweepJob, read_cell
from counting_interp.util.errors import printable

_NOT_BROKEN = ("locked", "full", "readonly", "unable to open")  # what SQLite says of files that are whole


@dataclass(frozen=True)
class Record:
    """A planned run, with its result if it is finished and what was measured by kind.

    Attributes:
        result: the values of its row in `results`, without the curves; None if it is not finished.
        measured: by kind (verdict, proof), the columns of each.
    """

    job: SweepJob
    parameters: int
    result: Mapping[str, Any] | None = None
    measured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str | None:
        return None if self.result is None else self.result["checkpoint"]


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
    names = columns(database, table)
    for row in database.execute(f"SELECT {', '.join(names)} FROM {table} {where}") if names else ():
        yield dict(zip(names, row, strict=True))


def whole(table: str, row: Mapping[str, Any]) -> None:
    """Raises ValueError, with the reason, for a row that cannot be what was written."""
    name = row["name"]
    if table == "jobs":
        _job(row)
    elif row.get("digest") is not None:
        if row["digest"] != digest(row):
            raise ValueError(f"the values of {name} are not those that were written")
    elif table == "results":
        numbers = [row["final"], row["best"], row["seconds"]]
        if not all(isinstance(number, float) and number >= 0 for number in numbers) or max(numbers[:2]) > 100:
            raise ValueError(f"the result of {name} is none")
        if row["checkpoint"] not in (None, f"{CHECKPOINTS}/{name}.pt"):
            raise ValueError(f"the checkpoint of {name} is somewhere else")
        json.loads(row["losses"]), json.loads(row["accuracies"])


def _records(database: sqlite3.Connection) -> Iterator[Record]:
    results: dict[str, dict[str, Any]] = {}
    for row in rows(database, "results"):
        whole("results", row)
        results[row["name"]] = {key: value for key, value in row.items() if key not in ("losses", "accuracies")}
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows(database, "measured"):
        whole("measured", row)
        facts = {"seconds": row["seconds"], "version": row["version"]}
        measured.setdefault(row["name"], {})[row["kind"]] = json.loads(row["row"]) | facts
    for row in rows(database, "jobs"):
        job = _job(row)
        yield Record(job, row["parameters"], results.pop(job.name, None), measured.get(job.name, {}))
    if results:
        raise ValueError(f"{len(results)} results belong to no planned run")


def _job(row: Mapping[str, Any]) -> SweepJob:
    job = SweepJob(read_cell(row), int(row["run"]))
    if (job.name, job.seed) != (row["name"], row["seed"]):
        raise ValueError(f"the axes of {str(row['name'])[:100]} do not fit its name and seed")
    return job


def _count(database: sqlite3.Connection) -> str:
    try:
        return str(database.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.DatabaseError:
        return "an unknown number of"
