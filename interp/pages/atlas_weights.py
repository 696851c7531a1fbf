"""The models that an atlas carries: one run per cell, those of the coarse grid first.

Weights are rounded to half precision. The run that is shown counts as most runs of its cell do; among those it is the
most accurate one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.pages.live import model_payload
from counting_interp.interp.sweep.grid import COARSE, SweepCell
from counting_interp.interp.sweep.statistics import group_by_cell, mechanism_of, mechanisms
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import CheckpointError


@dataclass(frozen=True)
class Live:
    """A model in the page: the cell it stands for, which run it is (or what else), and its weights as JSON."""

    cell: SweepCell
    about: str
    run: int | None
    payload: str


def checkpoints_of(sources: Sequence[Path]) -> dict[str, Path]:
    """The checkpoints that are still there, by the name of their run; tables have none."""
    folders = [source for source in sources if source.is_dir()]
    paths = {run.job.name: folder / run.checkpoint for folder in folders for run in read_runs(folder) if run.checkpoint}
    return {name: path for name, path in paths.items() if path.is_file()}


def choose(runs: Sequence[RunRow], there: Mapping[str, Path]) -> list[RunRow]:
    """One run for each cell that has a checkpoint, in the order in which they are taken."""
    main = {cell.cell: cell.main for cell in mechanisms(runs)}
    cells = group_by_cell(run for run in runs if run.job.name in there)
    chosen = [
        max(group, key=lambda run: (mechanism_of(run) == main.get(run.cell), run.final)) for group in cells.values()
    ]
    return sorted(chosen, key=lambda run: (not (run.cell.d in COARSE and run.cell.p in COARSE), run.parameters))


def load_live(chosen: Iterable[RunRow], there: Mapping[str, Path]) -> Iterator[Live]:
    """The models one by one, as they are asked for. A file that cannot be read, or has another model, is left out."""
    for run in chosen:
        try:
            model = CountingTransformer.load(there[run.job.name])
        except CheckpointError:
            continue
        if model.config == run.job.config():
            yield Live(run.cell, f"run {run.run} of this cell", run.run, packed(model))


def packed(model: CountingTransformer) -> str:
    payload: dict[str, Any] = model_payload(model, half=True)
    return json.dumps(payload, separators=(",", ":"))
