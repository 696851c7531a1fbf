"""What stacking gains: `python -m benchmarks.stacked_training`. Milliseconds of processor time per step and run.

One core; the smallest of several rounds, in which stacks of all sizes take turns, so that other work on the machine
matters little.
"""

from __future__ import annotations

import time

import torch

from models import CountingConfig, CountingTransformer
from models.training import Recipe
from models.training.torch_engine import TorchEngine, train_together

NAMES = (
    "dot+sftm",
    "bos+sftm",
    "dot+sftm+values+4heads+norm+gelu",
    "bos+sftm+values+4heads+norm+gelu+positions+causal",
)
STACKS = (1, 4, 16)
RECIPE = Recipe(sequences=640)  # 20 steps
ROUNDS = 6


def engines_of(name: str, n: int) -> list[TorchEngine]:
    configs = [CountingConfig.parse(name, T=32, L=10, d=32, p=32, seed=seed) for seed in range(n)]
    return [TorchEngine(config, RECIPE, CountingTransformer(config).state_dict()) for config in configs]


def step_times(name: str) -> dict[int, float]:
    """Per run, by the size of the stack."""
    stacks = {n: engines_of(name, n) for n in STACKS}
    best = dict.fromkeys(STACKS, float("inf"))
    for epoch in range(ROUNDS):
        for n, engines in stacks.items():
            data = [engine.draw(epoch) for engine in engines]
            began = time.thread_time()
            train_together(engines, data, epoch * RECIPE.steps_per_epoch)
            best[n] = min(best[n], 1e3 * (time.thread_time() - began) / RECIPE.steps_per_epoch / n)
    return best


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"{'model (d = p = 32)':52}" + "".join(f"{n:>10} runs" for n in STACKS) + "   16 against 1 (goal: 0.33)")
    for name in NAMES:
        times = step_times(name)
        shown = "".join(f"{times[n]:12.2f} ms" for n in STACKS)
        print(f"{name:52}{shown}   {times[16] / times[1]:.2f}", flush=True)
