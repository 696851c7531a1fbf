"""The models that come with the package: weights, in half precision, of some runs of the bundled table of Fig. 1.

    python -m scripts.bundle fig1 SWEEP
    python -m counting_interp.interp.pages.atlas_bundle SWEEP

add the runs of a sweep's folder to the table, and choose among its classified models anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from counting_interp.data import atlas_weights
from counting_interp.interp.pages.atlas_weights import Live, checkpoints_of, choose, packed
from counting_interp.interp.sweep.mechanisms import mechanism_of
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models import CountingTransformer
from counting_interp.util.files import write_atomically

WEIGHTS = atlas_weights()
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
