"""Where results live: one SQLite file, checkpoints beside it. One transaction per finished run, by the coordinator.

Tables and columns that an older version did not have are added when a sweep resumes. A database is checked whenever it
is opened, because a broken page may hide any number of runs: SQLite checks its pages, `rows` every row. `rescue` sets a
damaged file aside and keeps every row that is intact.
"""

from __future__ import annotations

import errno
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from counting_interp.interp.sweep.grid import AXIS_DEFAULTS, SweepJob
from counting_interp.interp.sweep.rows import (
    CHECKPOINTS,
    ROWS,
    TABLES,
    JobRow,
    MeasuredRow,
    Record,
    ResultRow,
    Value,
    digest,
    intact,
    job_of,
)
from counting_interp.interp.sweep.worker import Measurement, TrainedRun
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import locked, write_atomically
from counting_interp.util.text import version

FILE = "sweep.sqlite"
VERSION = 1
TRAINING, CLASSIFYING = "training", "classifying"
_LOCKS = {TRAINING: ".lock", CLASSIFYING: ".classify.lock"}
_TABLES_OF = {TRAINING: tuple(TABLES), CLASSIFYING: ("measured",)}
_COMPUTES = re.compile(r"\b(AS|CHECK|COLLATE|GENERATED|SELECT|VIRTUAL)\b", re.IGNORECASE)
_NOT_BROKEN = ("locked", "full", "readonly", "unable to open")  # what SQLite says of files that are whole
_NUMBERS_PER_PAGE = 1024  # of rows, at most: a page holds fewer than 64, and replaced rows had numbers


class SweepError(InterpError):
    """Something is wrong with a sweep's folder; the text says what is lost and how to continue."""


class Store:
    """The results in a folder.

    Args:
        folder: of the sweep.
        work: `TRAINING`, `CLASSIFYING` or both: held against others who want to do the same; nothing: only read.
    """

    def __init__(self, folder: str | Path, *work: str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        with ExitStack() as resources:
            if TRAINING not in work and not self.path.is_file():
                raise _no_sweep(self.folder)
            for kind in work:
                _hold(self.folder, kind, resources)
            with sqlite_errors_mention(self.path):
                self._db = resources.enter_context(closing(_connect(self.folder, work)))
                _check(self._db, self.path)
            self.close = resources.pop_all().close

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def plan(self, jobs: Iterable[SweepJob]) -> None:
        """Add planned runs; those that are there stay as they are."""
        with sqlite_errors_mention(self.path), self._db:
            for job in jobs:
                facts = {"run": job.run, "seed": job.seed, "parameters": job.config().num_parameters}
                _insert(self._db, "jobs", {"name": job.name, **asdict(job.cell), **facts}, "INSERT OR IGNORE")

    def records(self) -> list[Record]:
        """Every planned run in order, with its result and measurements where it has them."""
        with sqlite_errors_mention(self.path):
            return _check(self._db, self.path, pages=False)

    def has_checkpoint(self, record: Record) -> bool:
        return bool(record.checkpoint) and (self.folder / str(record.checkpoint)).is_file()

    def record(self, job: SweepJob, run: TrainedRun) -> None:
        """Write a finished run; a repeated one replaces what was there.

        The checkpoint is written before the row that names it. A kill in between leaves a file that the repeated run
        overwrites with the same bytes.
        """
        checkpoint = f"{CHECKPOINTS}/{job.name}.pt" if run.checkpoint else None
        row = {
            "name": job.name,
            "final": run.final,
            "best": run.best,
            "loss": run.losses[-1] if run.losses else None,
            "losses": _rounded(run.losses),
            "accuracies": _rounded(run.accuracies),
            "seconds": run.seconds,
            "checkpoint": checkpoint,
        }
        with sqlite_errors_mention(self.path):
            if checkpoint is not None:
                write_atomically(self.folder / checkpoint, run.checkpoint)
            with self._db:
                self._keep("results", row)
                self._keep_measured(job, run.measured)

    def record_measured(self, job: SweepJob, measurements: Mapping[str, Measurement]) -> None:
        """Write the measurements of a finished run, all kinds in one transaction."""
        with sqlite_errors_mention(self.path), self._db:
            self._keep_measured(job, measurements)

    def forget_measured(self, kinds: Sequence[str]) -> None:
        """So that it is measured again."""
        with sqlite_errors_mention(self.path), self._db:
            self._db.executemany("DELETE FROM measured WHERE kind = ?", [(kind,) for kind in kinds])

    def _keep_measured(self, job: SweepJob, measurements: Mapping[str, Measurement]) -> None:
        for kind, measurement in measurements.items():
            row = {"name": job.name, "kind": kind, "row": json.dumps(dict(measurement.row))}
            self._keep("measured", row | {"seconds": measurement.seconds})

    def _keep(self, table: str, row: dict[str, Any]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        row = row | {"finished": now, "version": version()}
        _insert(self._db, table, row | {"digest": digest(row)}, "INSERT OR REPLACE")


def _rounded(values: Iterable[float]) -> str:
    return json.dumps([float(f"{value:.5g}") for value in values])


# --- the file ---------------------------------------------------------------------------------------------------------


def _hold(folder: Path, work: str, resources: ExitStack) -> None:
    """Make the folder if need be, and keep others from the same work in it, for as long as `resources` are open."""
    what = "sweep" if work == TRAINING else "classification"
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        refusal = f"another {what} is running in {_shown(folder)}; wait for it, or stop it"
        resources.enter_context(locked(folder / _LOCKS[work], refusal))
    except InterpError as error:
        raise SweepError(str(error)) from error
    except OSError as error:
        raise SweepError(f"cannot write into {_shown(folder)}: {error.strerror}") from error


def _connect(folder: Path, works: Sequence[str]) -> sqlite3.Connection:
    """Open the database of a sweep, for reading where `works` is empty, and complete its tables otherwise."""
    path = folder / FILE
    # empty: no file, or one that a killed coordinator left before the first run ended
    new = not (path.is_file() and path.stat().st_size) and not any((folder / CHECKPOINTS).glob("*.pt"))
    with ExitStack() as resources:
        database = resources.enter_context(closing(_open_plain(path)))
        written_by = database.execute("PRAGMA user_version").fetchone()[0]
        if written_by == 0 and not (TRAINING in works and new):
            raise SweepError(
                f"{_shown(path)} is empty: the results of the runs are lost, their checkpoints are still there; "
                "remove the file, and `interp sweep run` makes the runs again"
            )
        if written_by not in (0, VERSION):
            raise SweepError(f"{_shown(path)} has format {written_by}; this version reads {VERSION}")
        if works:
            with database:
                database.execute("BEGIN")
                if written_by == 0:
                    database.execute(f"PRAGMA user_version = {VERSION}")
                _complete(database, [table for work in works for table in _TABLES_OF[work]])
        # a killed coordinator leaves the old state or the new one; FULL also survives a power failure
        database.execute("PRAGMA synchronous = FULL")
        resources.pop_all()
        return database


def _open_plain(path: Path) -> sqlite3.Connection:
    """Open a file of SQLite that holds plain tables and nothing that computes: no view, trigger, generated column or
    check. An untrusted one could take any time and memory as soon as somebody reads from it."""
    if path.exists() and not path.is_file():
        raise SweepError(f"{_shown(path)} is no regular file; remove it, or give another folder")
    with ExitStack() as resources:
        database = resources.enter_context(closing(sqlite3.connect(path, timeout=60)))
        database.execute("PRAGMA trusted_schema = OFF")
        for kind, name, sql in database.execute("SELECT type, name, sql FROM sqlite_master"):
            known = kind == "table" and name in TABLES and isinstance(sql, str) and not _COMPUTES.search(sql)
            if not known and not str(name).startswith("sqlite_"):
                what = f"{printable(str(kind), 20)} {printable(str(name), 60)}"
                raise SweepError(f"{_shown(path)} is no sweep's database: no sweep makes such a {what}")
        resources.pop_all()
        return database


def _complete(database: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Make missing tables and columns; a new axis has its default in the rows that are there."""
    for table in tables:
        wanted, there = TABLES[table], _columns(database, table)
        if not there:
            database.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in wanted.items())})")
            continue
        for name, kind in wanted.items():
            if name not in there and name != "PRIMARY KEY":
                default = f" DEFAULT {_literal(AXIS_DEFAULTS[name])}" if table == "jobs" else ""
                database.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}{default}")


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value + 0)  # True is 1


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    """Those that the table really has; none if it is not there."""
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def _insert(database: sqlite3.Connection, table: str, values: Mapping[str, Any], how: str = "INSERT") -> None:
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    database.execute(f"{how} INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))


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
        raise SweepError(_sentence(Path(error.filename or path), error.strerror or str(error))) from error


def _sentence(path: Path, reason: str) -> str:
    advice = {
        ("disk is full", "no space", "quota"): "finished runs are kept; make room, and the same command resumes",
        ("malformed", "not a database", "corrupt"): "`interp sweep rescue DIR` keeps what can still be read",
        ("locked",): "another program holds it; try again when that has ended",
        ("",): "finished runs are kept; mend that, and the same command resumes",
    }
    fitting = next(text for words, text in advice.items() if any(word in reason.lower() for word in words))
    return f"{_shown(path)}: {printable(reason)}; {fitting}"


def _no_sweep(folder: Path) -> SweepError:
    return SweepError(f"{_shown(folder)} holds no sweep ({FILE}); `interp sweep run` makes one")


def _shown(path: str | Path) -> str:
    return printable(str(path))


# --- is it intact? ----------------------------------------------------------------------------------------------------


def _check(database: sqlite3.Connection, path: Path, *, pages: bool = True) -> list[Record]:
    """Every planned run in order; a SweepError that says how much is whole if not all of it is."""
    try:
        if pages and (trouble := database.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise ValueError(trouble)
        return sorted(_records(database), key=lambda record: (tuple(vars(record.job.cell).values()), record.job.run))
    except (ValueError, sqlite3.DatabaseError) as error:
        if any(words in str(error) for words in _NOT_BROKEN):
            raise
        total = "an unknown number of"
        with suppress(sqlite3.DatabaseError):
            total = database.execute("SELECT count(*) FROM results").fetchone()[0]
        raise SweepError(
            f"{_shown(path)} is damaged ({printable(str(error))}): {len(_readable(database, 'results'))} of {total} "
            "results are whole; `interp sweep rescue DIR` keeps these, and `interp sweep run` then makes the others "
            "again"
        ) from error


def _records(database: sqlite3.Connection) -> Iterator[Record]:
    results = {row["name"]: intact(row, ResultRow) for row in _rows(database, "results")}
    measured: dict[str, dict[str, dict[str, Value]]] = {}
    for row in _rows(database, "measured"):
        measurement = intact(row, MeasuredRow)
        measured.setdefault(measurement.name, {})[measurement.kind] = measurement.values()
    for row in _rows(database, "jobs"):
        planned = intact(row, JobRow)
        yield Record(job_of(row), planned.parameters, results.pop(planned.name, None), measured.get(planned.name, {}))
    if results:
        raise ValueError(f"{len(results)} results belong to no planned run")


def _rows(database: sqlite3.Connection, table: str, where: str = "") -> Iterator[dict[str, Any]]:
    """The columns that this version knows; others may have any name."""
    names = [name for name in _columns(database, table) if name in TABLES[table]]
    for row in database.execute(f"SELECT {', '.join(names)} FROM {table} {where}") if names else ():
        yield dict(zip(names, row, strict=True))


def _readable(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """The rows of a table that can be read and are whole: one by one, because one broken page ends any longer query."""
    found: list[dict[str, Any]] = []
    last = database.execute("PRAGMA page_count").fetchone()[0] * _NUMBERS_PER_PAGE
    with suppress(sqlite3.DatabaseError):
        last = min(last, database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0)
    for number in range(1, last + 1):
        with suppress(sqlite3.DatabaseError, ValueError):
            for row in _rows(database, table, f"WHERE rowid = {number}"):
                intact(row, ROWS[table])
                found.append(row)
    return found


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
        raise _no_sweep(folder)
    if damaged.exists():
        raise SweepError(f"{_shown(damaged)} is there from an earlier rescue; move it away first")
    with ExitStack() as resources, sqlite_errors_mention(path):
        for work in _LOCKS:
            _hold(folder, work, resources)
        found: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        with suppress(sqlite3.DatabaseError), closing(_open_plain(path)) as old:  # not even its first page
            found = {table: _readable(old, table) for table in TABLES}
        planned = {row["name"] for row in found["jobs"]}
        fresh = folder / f"{FILE}.new"
        fresh.unlink(missing_ok=True)
        with closing(sqlite3.connect(fresh)) as new, new:
            new.execute(f"PRAGMA user_version = {VERSION}")
            _complete(new, TABLES)
            for table, rows in found.items():
                found[table] = [row for row in rows if row["name"] in planned]
                for row in found[table]:
                    _insert(new, table, row)
        path.replace(damaged)
        for journal in folder.glob(f"{FILE}-*"):
            journal.replace(folder / f"{journal.name}.damaged")
        fresh.replace(path)
    return Rescue(damaged, {table: len(rows) for table, rows in found.items()})
