"""The models that an atlas carries: one run per cell, those of the coarse grid first.

Weights are rounded to half precision. The run that is shown counts as most runs of its cell do; among those it is the
most accurate one. Some come with the package, of runs of the bundled table of Fig. 1:

    python -m scripts.bundle fig1 SWEEP
    python -m counting_interp.interp.pages.atlas_models SWEEP

add the runs of a sweep's folder to that table, and choose among its classified models anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from counting_interp.data import atlas_weights
from counting_interp.interp.pages.live import model_payload
from counting_interp.interp.sweep.grid import COARSE, SweepCell
from counting_interp.interp.sweep.statistics import group_by_cell, mechanism_of, mechanisms
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import CheckpointError
from counting_interp.util.files import write_atomically


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


WEIGHTS = atlas_weights()
BYTES = 1_500_000


def bundled(runs: Iterable[RunRow]) -> Iterator[Live]:
    """The bundled models among these runs."""
    for run, model in bundled_models(runs):
        yield Live(run.cell, f"run {run.run} of this cell", run.run, packed(model))


def bundled_models(runs: Iterable[RunRow]) -> Iterator[tuple[RunRow, CountingTransformer]]:
    """The same as models that can be asked."""
    weights: dict[str, dict[str, Tensor]] = {}
    for key, tensor in load_file(WEIGHTS).items():
        name, _, weight = key.partition("/")
        weights.setdefault(name, {})[weight] = tensor.float()
    for run in runs:
        if run.job.name in weights:
            yield run, CountingTransformer(run.job.config(), weights[run.job.name])


def make(folder: Path) -> int:
    """Write the weights; returns how many models they are of. Models that count come first, then those of the coarse
    grid, the small ones before the large."""
    runs = [run for run in read_runs(folder) if mechanism_of(run) is not None]
    there = checkpoints_of([folder])
    tensors = dict(_half(sorted(choose(runs, there), key=lambda run: mechanism_of(run) == "unsolved"), there))
    write_atomically(WEIGHTS, save(dict(sorted(tensors.items()))))
    return len({key.partition("/")[0] for key in tensors})


def _half(chosen: Sequence[RunRow], there: dict[str, Path]) -> Iterator[tuple[str, Tensor]]:
    room = BYTES
    for run in chosen:
        weights = CountingTransformer.load(there[run.job.name]).state_dict()
        room -= sum(2 * tensor.numel() for tensor in weights.values())
        if room < 0:
            return
        for name, tensor in weights.items():
            yield f"{run.job.name}/{name}", tensor.to(torch.float16).contiguous()


if __name__ == "__main__":
    print(f"{make(Path(sys.argv[1]))} models")
