"""What a row of a sweep may hold, declared once.

Every row of a database, and every row of an exported table, goes through these types when it is read. What does not fit
is a ValueError that names the column; whoever reads a row afterwards may rely on its kinds and ranges.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

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
    """What was found out about a finished run, as JSON in `row`."""

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


def fit(values: Mapping[str, Any], kind: type[S]) -> S:
    """`values` as this type; a ValueError that names what does not fit. No text in it can steer a terminal."""
    try:
        fitted = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_reason(values, kind, str(error)) if isinstance(values, Mapping) else str(error)) from None
    for name, value in values.items():
        unprintable = isinstance(value, str) and not value.isprintable() and name != "row"
        if unprintable or (isinstance(value, float) and not math.isfinite(value) and name != "loss"):
            raise ValueError(f"{name} cannot be {quoted(value)}")
    return fitted


def _reason(values: Mapping[str, Any], kind: Any, message: str) -> str:
    """`final cannot be 'x': Expected `float`, got `str``. Of a dictionary, msgspec does not say which value it is."""
    expected, _, place = message.partition(" - at `$")
    name = place.strip("`.")
    if place.startswith("[...]"):
        name = next(name for name, value in values.items() if not _fits({name: value}, kind))
    return f"{name} cannot be {quoted(values[name])}: {expected}" if name in values else message


def _fits(values: Any, kind: Any) -> bool:
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return False
    return True
