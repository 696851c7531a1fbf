"""What a row of a sweep may hold, declared once, for its database and for exported tables.

jobs      every planned run: its axes (see `grid`), index, seed and number of trained weights
results   every finished one: accuracies, curves, seconds, checkpoint
measured  measurements of finished ones, by kind (verdict, proof), as JSON

Every row goes through its type when it is read. What does not fit is a ValueError that names the column. Each row of a
result carries a digest of its values, because SQLite notices broken pages, not flipped bits inside a value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from counting_interp.interp.sweep.grid import AXIS_TYPES, SweepJob, read_cell
from counting_interp.util.errors import quoted

CHECKPOINTS = "checkpoints"  # the folder of the sweep in which they are
LARGEST = 10.0**15  # no number of a measurement comes near; sums and squares of such numbers stay finite

Percent = Annotated[float, Meta(ge=0, le=100)]
Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
Parameters = Annotated[int, Meta(ge=1, le=2**53)]
Words = Annotated[str, Meta(max_length=300)]
Column = Annotated[str, Meta(pattern="^[A-Za-z][A-Za-z0-9_]{0,59}$")]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Value = bool | Annotated[int, Meta(ge=-(2**53), le=2**53)] | Number | Words | None

S = TypeVar("S")


class JobRow(Struct):
    """A planned run; its axes are a `SweepCell`."""

    name: Words
    run: Natural
    seed: Natural
    parameters: Parameters


class ResultRow(Struct):
    """A finished run. Its curves are JSON that nothing reads back."""

    name: Words
    final: Percent
    best: Percent
    loss: float | None
    seconds: Seconds
    losses: str | None = None
    accuracies: str | None = None
    checkpoint: Words | None = None
    finished: Words | None = None
    version: Words | None = None
    digest: Words | None = None

    def __post_init__(self) -> None:
        if self.checkpoint not in (None, f"{CHECKPOINTS}/{self.name}.pt"):
            raise ValueError("the checkpoint is somewhere else")


class MeasuredRow(Struct):
    """A measurement of a finished run, as JSON in `row`."""

    name: Words
    kind: Column
    row: str
    seconds: Seconds
    finished: Words | None = None
    version: Words | None = None
    digest: Words | None = None

    def values(self) -> dict[str, Value]:
        """By column, with the time and the version of the measurement; what is not a number (NaN) is None."""
        try:
            loaded = json.loads(self.row, parse_constant=lambda name: None)
        except RecursionError:
            raise ValueError(f"the {self.kind} of a run is nested too deeply") from None
        return {**fit(loaded, dict[Column, Value]), "seconds": self.seconds, "version": self.version}


class TableRow(Struct):
    """What an exported table says of a finished run, beside its axes and measurements."""

    run: Natural
    seed: Natural
    parameters: Parameters
    final: Percent
    best: Percent
    loss: float
    seconds: Seconds
    checkpoint: Words = ""
    version: Words = ""


ROWS: dict[str, type[Struct]] = {"jobs": JobRow, "results": ResultRow, "measured": MeasuredRow}
_SQL = {"str": "TEXT", "int": "INTEGER", "bool": "INTEGER", "float": "REAL"}
_KEYS = {"jobs": "name", "results": "name", "measured": "name, kind"}


def _columns(kind: type[Struct]) -> dict[str, str]:
    hints = get_type_hints(kind)
    return {name: _SQL[(get_args(hint) or (hint,))[0].__name__] for name, hint in hints.items()}


TABLES: dict[str, dict[str, str]] = {  # with the type of each column in SQL
    table: _columns(kind) | {"PRIMARY KEY": f"({_KEYS[table]})"} for table, kind in ROWS.items()
}
TABLES["jobs"] = {axis: _SQL[kind] for axis, kind in AXIS_TYPES.items()} | TABLES["jobs"]


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


def intact(row: Mapping[str, Any], kind: type[S]) -> S:
    """The row as its declared type. Raises ValueError, with the reason, where it cannot be what was written."""
    if row.get("digest") is not None and row["digest"] != digest(row):
        raise ValueError(f"the values of {quoted(row.get('name'), 100)} are not those that were written")
    fitted = fit(row, kind)
    if isinstance(fitted, JobRow):
        job_of(row)
    elif isinstance(fitted, MeasuredRow):
        fitted.values()
    return fitted


def job_of(row: Mapping[str, Any]) -> SweepJob:
    job = SweepJob(read_cell(row), row["run"])
    if (job.name, job.seed) != (row["name"], row["seed"]):
        raise ValueError(f"the axes of {quoted(row['name'], 100)} do not fit its name and seed")
    return job


def digest(values: Mapping[str, Any]) -> str:
    """Of the values of a row as SQLite gives them back; NaN, which it keeps as NULL, counts as None."""
    plain = [None if value != value else value for name, value in sorted(values.items()) if name != "digest"]
    return hashlib.sha256(json.dumps(plain, default=repr).encode()).hexdigest()[:16]


def fit(values: Mapping[str, Any], kind: type[S], *, texts: bool = False) -> S:
    """`values`, which may all be `texts`, as this type; a ValueError that names what does not fit. No text in it can
    steer a terminal."""
    try:
        fitted = msgspec.convert(values, kind, strict=not texts)
    except msgspec.ValidationError as error:
        expected, _, path = str(error).partition(" - at `$")
        name = path.strip("`.")
        if path.startswith("[...]"):  # of a dictionary, msgspec does not say which value it is
            name = next(name for name, value in values.items() if not _fits({name: value}, kind))
        named = isinstance(values, Mapping) and name in values
        raise ValueError(f"{name} cannot be {quoted(values[name])}: {expected}" if named else str(error)) from None
    for name, value in values.items():
        if isinstance(value, str) and not value.isprintable() and name != "row":
            raise ValueError(f"{name} cannot be {quoted(value)}")
    return fitted


def _fits(values: Any, kind: Any) -> bool:
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return False
    return True
