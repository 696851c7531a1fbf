"""How much faster is training than the published loop? Run `python -m benchmarks.training`, on one core.

Times are processor time of the thread, the smallest of several rounds, and the reference and the kernels alternate. So
other work on the machine matters little.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.published_loop import BATCH_SIZE, SEQUENCES, published_loop
from counting_interp.models import CountingConfig
from counting_interp.models.config import VARIANTS
from counting_interp.models.training import Recipe, Run

GRID = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)
MEASURED = (1, 16, 45, 128)  # sizes; those in between are interpolated
RUNS, EPOCHS = 5, 500
GOALS = {("dot", 32): 100, ("bos+sftm", 32): 100, ("dot+sftm", 32): 100, ("lin", 32): 40, ("lin+sftm", 32): 40}


def seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def step_times(config: CountingConfig, rounds: int) -> tuple[float, float, float]:
    """Milliseconds per step of the reference and of the kernels, and seconds per epoch with validation."""
    loop, run = published_loop(config), Run(config, Recipe(sampler="published"))
    steps = SEQUENCES // BATCH_SIZE
    next(loop)
    run.advance()
    plain, fast, whole = [], [], []
    for _ in range(rounds):
        plain.append(seconds(lambda: next(loop)) / steps)
        fast += [seconds(run.train_epoch) / run.recipe.steps_per_epoch for _ in range(3)]
        whole.append(seconds(run.advance))
    return 1e3 * min(plain), 1e3 * min(fast), min(whole)


def sized(variant: str, d: int, p: int) -> CountingConfig:
    return CountingConfig.parse(variant, T=32, L=10, d=d, p=p, n_classes=11)


def print_ratios() -> None:
    print(f"{'model':10} {'d':>4} {'p':>4} {'published loop':>15} {'here':>9} {'ratio':>6}  goal")
    cells = [("bos+sftm", 8, 8), ("bos+sftm", 45, 2), ("bos+sftm", 64, 64)]
    for variant, d, p in [*((variant, d, d) for d in (32, 128) for variant in VARIANTS), *cells]:
        plain, fast, _ = step_times(sized(variant, d, p), 8)
        goal = 20 if d == 128 else GOALS.get((variant, d), 0) if d == p else 0
        verdict = "" if not goal else f">= {goal}: {'reached' if plain / fast >= goal else 'MISSED'}"
        print(f"{variant:10} {d:4} {p:4} {plain:12.2f} ms {fast:6.3f} ms {plain / fast:6.0f}  {verdict}", flush=True)


def print_grid() -> None:
    """Total time of the paper's Fig. 1: 6 models x 14 x 14 sizes x 5 runs x 500 epochs of 313 steps."""
    steps = RUNS * EPOCHS * 313
    plain_total = fast_total = whole_total = 0.0
    for variant in VARIANTS:
        measured = np.array([[step_times(sized(variant, d, p), 2) for p in MEASURED] for d in MEASURED])
        plain, fast, whole = (interpolated(measured[..., i]).sum() for i in range(3))
        plain_total, fast_total = plain_total + plain * steps / 1e3, fast_total + fast * steps / 1e3
        whole_total += whole * RUNS * EPOCHS
        print(f"{variant:10} grid: {plain / fast:4.0f} times faster", flush=True)
    print(f"fig1 grid in total: {plain_total / fast_total:.0f} times faster (goal: 60)")
    print(f"fig1 grid, 5,880 runs with validation: {whole_total / 3600 / 2:.1f} hours on two cores (goal: 24)")


def interpolated(measured: np.ndarray) -> np.ndarray:
    """Values on the whole grid from those at the measured sizes, linear in the logarithms of d, p and time."""
    at, known = np.log(GRID), np.log(MEASURED)
    rows = np.array([np.interp(at, known, row) for row in np.log(measured)])
    return np.exp(np.array([np.interp(at, known, column) for column in rows.T])).T


WORKER = """
import json, resource, time
began = time.perf_counter()
from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe, Run
imported = time.perf_counter()
run = Run(CountingConfig.parse("bos+sftm", T=32, L=10, d=128, p=128), Recipe())
run.advance()
first = time.perf_counter()
run.advance()
second = time.perf_counter()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([memory, imported - began, (first - imported) - (second - first)]))
"""


def print_workers() -> None:
    """Memory of one worker process and of two, and the time before the first step with cached kernels."""
    command = [sys.executable, "-c", WORKER]
    memory, imports, start = json.loads(subprocess.check_output(command, cwd="/"))
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") for _ in range(2)]
    together = sum(json.loads(worker.communicate()[0])[0] for worker in pair)
    print(f"a worker at d=p=128 takes {memory:.0f} MB, two at a time {together:.0f} MB together (goal: under 2,000)")
    print(f"start with cached kernels: {imports:.1f} s of imports, then {start:.1f} s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_ratios()
    print_workers()
    print_grid()
