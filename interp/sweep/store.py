"""Where results live: one SQLite file, checkpoints beside it. One transaction per finished run, by the coordinator."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict, fields
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from interp.sweep.grid import Cell, Job
from interp.sweep.training import Outcome
from models.errors import InterpError, printable
from models.files import write_atomically

FILE, CHECKPOINTS, LOCK = "sweep.sqlite", "checkpoints", ".lock"
VERSION = 1
CELL_COLUMNS = tuple(field.name for field in fields(Cell))
_SCHEMA = f"""
CREATE TABLE jobs (
  name TEXT PRIMARY KEY, model TEXT, T INTEGER, L INTEGER, d INTEGER, p INTEGER, n_layers INTEGER, frozen INTEGER,
  sampler TEXT, epochs INTEGER, run INTEGER, seed INTEGER, parameters INTEGER
);
CREATE TABLE results (
  name TEXT PRIMARY KEY REFERENCES jobs, final REAL, best REAL, loss REAL, losses TEXT, accuracies TEXT, seconds REAL,
  checkpoint TEXT, finished TEXT
);
PRAGMA user_version = {VERSION};
"""


class Store:
    """The results in a folder.

    Args:
        folder: of the sweep.
        write: make it if need be, and hold it against other coordinators; else only read.
    """

    def __init__(self, folder: str | Path, *, write: bool = False) -> None:
        self.folder = Path(folder)
        with ExitStack() as resources:
            if write:
                self._prepare(resources)
            elif not (self.folder / FILE).is_file():
                raise InterpError(f"{_shown(folder)} holds no sweep ({FILE}); `interp sweep run` makes one")
            self._db = self._connect(resources, write)
            self.close = resources.pop_all().close

    def _prepare(self, resources: ExitStack) -> None:
        try:
            (self.folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            lock = resources.enter_context((self.folder / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system frees it when its holder is killed
        except BlockingIOError as error:
            raise InterpError(f"another sweep is running in {_shown(self.folder)}; wait for it, or stop it") from error
        except OSError as error:
            raise InterpError(f"cannot write into {_shown(self.folder)}: {error.strerror}") from error

    def _connect(self, resources: ExitStack, write: bool) -> sqlite3.Connection:
        path = self.folder / FILE
        try:
            database = resources.enter_context(closing(sqlite3.connect(path, timeout=60)))
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and write:
                database.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
                version = VERSION
            # a killed coordinator leaves the old state or the new one; FULL also survives a power failure
            database.execute("PRAGMA synchronous = FULL")
        except sqlite3.DatabaseError as error:
            raise InterpError(f"{_shown(path)} cannot be read: {error}") from error
        if version != VERSION:
            raise InterpError(f"{_shown(path)} has format {version}; this version reads {VERSION}")
        return database

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def plan(self, jobs: Iterable[Job]) -> None:
        """Say which runs there will be; those known already stay as they are."""
        rows = []
        for job in jobs:
            cell = asdict(job.cell)
            values = [cell[column] for column in CELL_COLUMNS]
            rows.append((job.name, *values, job.run, job.seed, job.config().num_parameters))
        with self._db:
            self._db.executemany(f"INSERT OR IGNORE INTO jobs VALUES ({', '.join('?' * 13)})", rows)

    def finished(self) -> set[str]:
        """Names of the jobs that have a result."""
        return {name for (name,) in self._db.execute("SELECT name FROM results")}

    def record(self, outcome: Outcome) -> None:
        """Keep a finished run. Its checkpoint is there before the row that names it; a kill in between leaves a file
        that the repeated run overwrites with the same bytes."""
        name = outcome.job.name
        checkpoint = None
        if outcome.checkpoint:
            checkpoint = f"{CHECKPOINTS}/{name}.pt"
            write_atomically(self.folder / checkpoint, outcome.checkpoint)
        row = (
            name,
            outcome.final,
            outcome.best,
            outcome.losses[-1] if outcome.losses else None,
            _rounded(outcome.losses),
            _rounded(outcome.accuracies),
            outcome.seconds,
            checkpoint,
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )
        with self._db:
            self._db.execute(f"INSERT INTO results VALUES ({', '.join('?' * len(row))})", row)

    def rows(self) -> list[dict[str, Any]]:
        """Every planned run in order, with its result or with None in the columns of one."""
        order = ", ".join([*CELL_COLUMNS, "run"])
        cursor = self._db.execute(
            f"SELECT {order}, seed, parameters, final, best, loss, seconds, checkpoint "
            f"FROM jobs LEFT JOIN results USING (name) ORDER BY {order}"
        )
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def curves(self, job: Job) -> tuple[list[float], list[float]]:
        """Losses and accuracies of a finished run, epoch by epoch, rounded to five digits."""
        row = self._db.execute("SELECT losses, accuracies FROM results WHERE name = ?", (job.name,)).fetchone()
        if row is None:
            raise InterpError(f"{job.name} has no result in {_shown(self.folder)}")
        return json.loads(row[0]), json.loads(row[1])


def _rounded(values: Iterable[float]) -> str:
    return json.dumps([float(f"{value:.5g}") for value in values])


def _shown(path: str | Path) -> str:
    return printable(str(path))
