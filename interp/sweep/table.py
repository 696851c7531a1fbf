"""Finished runs as rows, from a sweep's folder or from an exported CSV file, and their statistics per cell."""

from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from interp.sweep.grid import Cell
from interp.sweep.store import CELL_COLUMNS, Store
from models.errors import InterpError, printable

SOLVED = 99.0  # percent: what the paper's dots stand for


@dataclass(frozen=True)
class RunRow:
    """One finished run: a row of the exported table. Accuracies are in percent, time in seconds."""

    model: str
    T: int
    L: int
    d: int
    p: int
    n_layers: int
    frozen: bool
    sampler: str
    epochs: int
    run: int
    seed: int
    parameters: int
    final: float
    best: float
    loss: float
    seconds: float
    checkpoint: str

    @property
    def cell(self) -> Cell:
        return Cell(**{name: getattr(self, name) for name in CELL_COLUMNS})


@dataclass(frozen=True)
class CellStatistics:
    """What the paper plots of a cell.

    Attributes:
        runs: finished ones.
        mean, std: of the accuracy after the last epoch; the sample standard deviation (n - 1), None for one run.
        best: of any run at any epoch.
        solved: share of runs that end at 99 % or above.
    """

    cell: Cell
    parameters: int
    runs: int
    mean: float
    std: float | None
    best: float
    solved: float


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda value: bool(int(value)),
}
COLUMNS = tuple(field.name for field in fields(RunRow))


def read_runs(source: str | Path) -> list[RunRow]:
    """The finished runs of a sweep's folder or of a CSV file that `interp sweep export` wrote."""
    path = Path(source)
    if path.is_dir():
        with Store(path) as store:
            rows = [row for row in store.rows() if row["final"] is not None]
        return [_row({**row, "checkpoint": row["checkpoint"] or ""}, f"{path}") for row in rows]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InterpError(f"{printable(str(source))} is neither a sweep's folder nor a readable table") from error
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
    if missing:
        raise InterpError(
            f"{printable(str(source))} lacks the column {missing[0]!r}; `interp sweep export` writes such tables"
        )
    return [_row(row, f"{source}, line {reader.line_num}") for row in reader]


def write_runs(runs: Iterable[RunRow]) -> str:
    """As CSV, with a header line; accuracies and losses to four places, seconds to two."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        row = asdict(run) | {name: round(getattr(run, name), 4) for name in ("final", "best", "loss")}
        writer.writerow(row | {"frozen": int(run.frozen), "seconds": round(run.seconds, 2)})
    return text.getvalue()


def by_cell(runs: Sequence[RunRow]) -> list[CellStatistics]:
    """Statistics of each cell, in order of first appearance."""
    groups: defaultdict[Cell, list[RunRow]] = defaultdict(list)
    for run in runs:
        groups[run.cell].append(run)
    return [_statistics(cell, group) for cell, group in groups.items()]


def _statistics(cell: Cell, runs: list[RunRow]) -> CellStatistics:
    finals = [run.final for run in runs]
    return CellStatistics(
        cell=cell,
        parameters=runs[0].parameters,
        runs=len(runs),
        mean=statistics.fmean(finals),
        std=statistics.stdev(finals) if len(finals) > 1 else None,
        best=max(run.best for run in runs),
        solved=sum(final >= SOLVED for final in finals) / len(finals),
    )


def _row(values: dict[str, Any], where: str) -> RunRow:
    parsed: dict[str, Any] = {}
    for field in fields(RunRow):
        value = values[field.name]
        try:
            parsed[field.name] = _PARSERS[str(field.type)](value)
        except (TypeError, ValueError) as error:
            raise InterpError(f"{printable(where)}: {field.name} cannot be {printable(repr(value))}") from error
    row = RunRow(**parsed)
    try:
        assert row.cell
    except ValueError as error:
        raise InterpError(f"{printable(where)}: {error}") from error
    return row
