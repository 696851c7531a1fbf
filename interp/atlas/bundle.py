"""What comes with the package: classified runs as a table, and the weights of some of them in half precision.

    python -m interp.atlas.bundle SWEEP

makes both anew from a sweep's folder whose runs were classified.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from interp.atlas.weights import Live, checkpoints_of, choose, packed
from interp.figures.paper_parts import BUNDLED_SWEEP
from interp.sweep.mechanisms import mechanism_of
from interp.sweep.table import RunRow, read_runs, write_runs
from models import CountingTransformer
from models.files import write_atomically

DATA = Path(str(files("interp.atlas") / "data"))
TABLE, WEIGHTS = DATA / "fig1-classified.csv", DATA / "fig1-weights.safetensors"
TABLES = [BUNDLED_SWEEP, TABLE]  # two runs of many cells, and runs that were classified and verified
BYTES = 1_500_000


def bundled(runs: Iterable[RunRow]) -> Iterator[Live]:
    """The bundled models among these runs."""
    tensors = load_file(WEIGHTS)
    models: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, _, weight = key.partition("/")
        models.setdefault(name, {})[weight] = tensor.float()
    for run in runs:
        if run.job.name in models:
            model = CountingTransformer(run.job.config(), models[run.job.name])
            yield Live(run.cell, f"run {run.run} of this cell", run.run, packed(model))


def make(folder: Path) -> tuple[int, int]:
    """Write table and weights; returns how many runs and how many models they have. Models that count come first, then
    those of the coarse grid, the small ones before the large."""
    runs = [run for run in read_runs(folder) if mechanism_of(run) is not None]
    write_atomically(TABLE, write_runs([replace(run, checkpoint="") for run in runs]).encode())
    there = checkpoints_of([folder])
    tensors = dict(_half(sorted(choose(runs, there), key=lambda run: mechanism_of(run) == "unsolved"), there))
    write_atomically(WEIGHTS, save(dict(sorted(tensors.items()))))
    return len(runs), len({key.partition("/")[0] for key in tensors})


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
    print("{} runs, {} models".format(*make(Path(sys.argv[1]))))
