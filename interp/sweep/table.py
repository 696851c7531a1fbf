"""Finished runs as rows, from a sweep's folder or from an exported CSV file.

The columns are the axes of `SweepCell` and what every run has (`_FACTS`). Classified or proved runs also have the
columns of the verdict and the proof, with `verdict_` or `proof_` in front. A table without the column of an axis was
written before there was that axis; it has its default.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from counting_interp.interp.sweep.grid import AXES, AXIS_DEFAULTS, SweepCell, SweepJob, read_cell
from counting_interp.interp.sweep.rows import Column, Record, ResultRow, TableRow, Value, fit
from counting_interp.interp.sweep.store import Store
from counting_interp.util.tables import read_csv, write_csv

_FACTS = TableRow.__struct_fields__
_LATER = ("version",)  # facts that older tables do not have
COLUMNS = (*AXES, *_FACTS)  # with which every exported table begins
_MEASURED = ("verdict_", "proof_")


@dataclass(frozen=True)
class RunRow:
    """One finished run: a row of the exported table. Accuracies are in percent, time in seconds.

    Attributes:
        loss: of the last epoch; NaN where training came to that.
        version: of the package that trained it; empty if it was not noted.
        measured: its verdict and proof by column: `verdict_label`, `proof_share`, ...
    """

    job: SweepJob
    seed: int
    parameters: int
    final: float
    best: float
    loss: float
    seconds: float
    checkpoint: str = ""
    version: str = ""
    measured: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def cell(self) -> SweepCell:
        return self.job.cell

    @property
    def run(self) -> int:
        return self.job.run

    def to_dict(self) -> dict[str, Any]:
        """By column; nothing is rounded here."""
        facts = {name: getattr(self, name) for name in _FACTS}
        return {**dataclasses.asdict(self.cell), **facts, **self.measured}


def read_runs(*sources: str | Path) -> list[RunRow]:
    """The finished runs of sweeps' folders and of CSV files that `interp sweep export` wrote, each run once: of several
    rows of the same run, the one that says more."""
    found: dict[str, RunRow] = {}
    for source in sources:
        for run in _folder(Path(source)) if Path(source).is_dir() else _file(Path(source)):
            before = found.get(run.job.name)
            if before is None or len(run.measured) >= len(before.measured):
                found[run.job.name] = run
    return list(found.values())


def missing(jobs: Iterable[SweepJob], runs: Iterable[RunRow], kinds: Sequence[str] = ()) -> list[SweepJob]:
    """The jobs that are not among the runs, or are without one of these kinds of measurement (verdict, proof)."""
    known = {
        run.job.name
        for run in runs
        if all(any(column.startswith(f"{kind}_") for column in run.measured) for kind in kinds)
    }
    return [job for job in jobs if job.name not in known]


def write_runs(runs: Iterable[RunRow]) -> str:
    """As CSV, with a header line; accuracies and losses to four places, seconds to two, measurements to six digits."""
    rows = [_rounded(run) for run in runs]
    names = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    return write_csv(rows, list(names))


# --- out of a folder ---------------------------------------------------------------------------------------------


def _folder(path: Path) -> Iterator[RunRow]:
    with Store(path) as store:
        records = store.records()
    return (_of_record(record, record.result) for record in records if record.result is not None)


def _of_record(record: Record, result: ResultRow) -> RunRow:
    measured = {
        f"{kind}_{name}": value
        for kind, row in sorted(record.measured.items())
        for name, value in row.items()
        if value is not None  # an empty cell of the table
    }
    return RunRow(
        job=record.job,
        seed=record.job.seed,
        parameters=record.parameters,
        final=result.final,
        best=result.best,
        loss=math.nan if result.loss is None else result.loss,  # SQLite keeps NaN as NULL
        seconds=result.seconds,
        checkpoint=result.checkpoint or "",
        version=result.version or "",
        measured=measured,
    )


# --- out of a file, and into one ---------------------------------------------------------------------------------


def _file(path: Path) -> list[RunRow]:
    needed = [name for name in (*AXES, *_FACTS) if name not in AXIS_DEFAULTS and name not in _LATER]
    return read_csv(path, needed, _of_row, "`interp sweep export` writes such tables")


def _of_row(row: Mapping[str, str]) -> RunRow:
    facts = asdict(fit({name: row[name] for name in _FACTS if name in row}, TableRow, texts=True))
    job = SweepJob(read_cell(row), facts.pop("run"))
    measured = {name: _value(text) for name, text in row.items() if name.startswith(_MEASURED) and text != ""}
    return RunRow(job=job, measured=fit(measured, dict[Column, Value]), **facts)


def _value(text: str) -> Any:
    """A measurement as it was: a number where it reads as one, True or False, else words."""
    if text in ("True", "False"):
        return text == "True"
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("-").isdecimal() else number


def _rounded(run: RunRow) -> dict[str, Any]:
    row = run.to_dict()
    row |= {axis: int(value) for axis, value in dataclasses.asdict(run.cell).items() if isinstance(value, bool)}
    row |= {name: round(getattr(run, name), 4) for name in ("final", "best", "loss")}
    row["seconds"] = round(run.seconds, 2)
    return row | {name: _six_digits(value) for name, value in run.measured.items() if value is not None}


def _six_digits(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
