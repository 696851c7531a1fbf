"""Has training become slower? Times two checkouts of the project in alternating epochs, on one core.

    python -m benchmarks.compare_training OLD_CHECKOUT NEW_CHECKOUT

The speed of a shared machine changes from second to second, so the times of two separate runs say little. Here epochs
of both checkouts alternate, in three pairs of processes. The result is the median of the ratios.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

CELLS = [*((variant, d, d) for d in (32, 128) for variant in ("lin", "dot", "bos", "lin+sftm", "dot+sftm", "bos+sftm"))]
CELLS += [("bos+sftm", 45, 2)]
PROCESSES, ROUNDS = 3, {32: 60, 45: 60, 128: 25}

WORKER = """
import json, sys, time
import importlib, os
sys.path[:0] = [sys.argv[1] + "/src", sys.argv[1]]
import torch
torch.set_num_threads(1)
name = "counting_interp.models" if os.path.isdir(sys.argv[1] + "/src") else "models"  # the name before version 0.3
models, training = importlib.import_module(name), importlib.import_module(name + ".training")
assert models.__file__.startswith(sys.argv[1]), models.__file__
CountingConfig, Recipe, Run = models.CountingConfig, training.Recipe, training.Run
for line in sys.stdin:
    cell = json.loads(line)
    if cell:
        variant, d, p = cell
        config = CountingConfig.parse(variant, T=32, L=10, d=d, p=p, n_classes=11)
        run = Run(config, Recipe(sampler="published"))
        run.advance()
    began = time.perf_counter()
    run.train_epoch()
    print(time.perf_counter() - began, flush=True)
"""


class Checkout:
    """A process that trains one epoch at a time with the code of one checkout."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", WORKER, str(folder.resolve())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")

    def epoch(self, begin: tuple[str, int, int] | None) -> float:
        """Seconds of one epoch. `begin` (variant, d, p) starts a new run first."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(begin) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main(old: Path, new: Path) -> None:
    ratios: dict[tuple[str, int, int], list[float]] = {cell: [] for cell in CELLS}
    for _ in range(PROCESSES):
        pair = Checkout(old), Checkout(new)
        for cell in CELLS:
            for number in range(ROUNDS[cell[1]]):
                order = pair if number % 2 else pair[::-1]
                seconds = {which: which.epoch(cell if number == 0 else None) for which in order}
                ratios[cell].append(seconds[pair[1]] / seconds[pair[0]])
        for which in pair:
            which.process.kill()
    for (variant, d, p), of_cell in ratios.items():
        low, middle, high = statistics.quantiles(of_cell, n=4)
        print(f"{variant:10} d={d:<4} p={p:<4} new over old: median {middle:.3f} (quartiles {low:.3f}, {high:.3f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
