"""How far a sweep is, model by model; may be asked while it runs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from interp.sweep.grid import Cell
from interp.sweep.progress import duration, seconds_left
from interp.sweep.store import CELL_COLUMNS, Store


@dataclass(frozen=True)
class Status:
    """One model of a sweep.

    Attributes:
        cells_begun: with at least one finished run.
        seconds: of work spent, over all workers.
        seconds_left: of work for one worker, as far as it can be foreseen.
    """

    model: str
    cells: int
    cells_begun: int
    runs: int
    finished: int
    seconds: float
    seconds_left: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_status(folder: str | Path) -> list[Status]:
    with Store(folder) as store:
        rows = store.rows()
    groups: defaultdict[str, list[tuple[Cell, float | None]]] = defaultdict(list)
    for row in rows:
        cell = Cell(**{name: row[name] for name in CELL_COLUMNS} | {"frozen": bool(row["frozen"])})
        groups[row["model"]].append((cell, row["seconds"]))
    return [_status(model, runs) for model, runs in groups.items()]


def status_lines(groups: list[Status]) -> list[str]:
    """For people: one line per model and one for all."""
    lines = [f"{'model':10} {'runs':>12} {'cells begun':>12} {'spent':>12} {'left, one worker':>17}"]
    total = Status(
        "all",
        sum(group.cells for group in groups),
        sum(group.cells_begun for group in groups),
        sum(group.runs for group in groups),
        sum(group.finished for group in groups),
        sum(group.seconds for group in groups),
        sum(group.seconds_left or 0 for group in groups) if all(g.seconds_left is not None for g in groups) else None,
    )
    for group in [*groups, total]:
        runs, cells = f"{group.finished}/{group.runs}", f"{group.cells_begun}/{group.cells}"
        left = "?" if group.seconds_left is None else duration(group.seconds_left)
        lines.append(f"{group.model:10} {runs:>12} {cells:>12} {duration(group.seconds):>12} {left:>17}")
    return lines


def _status(model: str, runs: list[tuple[Cell, float | None]]) -> Status:
    spent = [(cell, seconds) for cell, seconds in runs if seconds is not None]
    left = [cell for cell, seconds in runs if seconds is None]
    return Status(
        model=model,
        cells=len({cell for cell, _ in runs}),
        cells_begun=len({cell for cell, _ in spent}),
        runs=len(runs),
        finished=len(spent),
        seconds=sum(seconds for _, seconds in spent),
        seconds_left=seconds_left(spent, left, 1) if left else 0.0,
    )
