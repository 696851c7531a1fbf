"""How much faster is training in stacks? Prints milliseconds of processor time per step and run.

    python -m benchmarks.stacked_training

Runs on one core. Stacks of all sizes alternate and the smallest of several rounds counts, so other work on the machine
matters little. The last column is the largest stack with compiled steps, if there is a C++ compiler.
"""

from __future__ import annotations

import shutil
import time

import torch

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe
from counting_interp.models.training.torch_engine import Differentiate, TorchEngine, train_together
from scripts.compiled_steps import compiled_step

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


def step_times(name: str) -> dict[str, float]:
    """Milliseconds per step and run for each size of stack, and for the largest with compiled steps."""
    stacks: dict[str, tuple[list[TorchEngine], Differentiate | None]] = {
        f"{n}": (engines_of(name, n), None) for n in STACKS
    }
    if shutil.which("g++"):
        largest = engines_of(name, STACKS[-1])
        stacks["compiled"] = (largest, compiled_step(largest[0].config, RECIPE.batch_size, len(largest)))
    best = dict.fromkeys(stacks, float("inf"))
    for epoch in range(ROUNDS):
        for kind, (engines, fast) in stacks.items():
            data = [engine.draw(epoch) for engine in engines]
            began = time.thread_time()
            train_together(engines, data, epoch * RECIPE.steps_per_epoch, fast)
            seconds = (time.thread_time() - began) / RECIPE.steps_per_epoch / len(engines)
            best[kind] = min(best[kind], 1e3 * seconds)
    return best


if __name__ == "__main__":
    torch.set_num_threads(1)
    heads = [*(f"{n} runs" for n in STACKS), "16 against 1", "16, compiled"]
    print(f"{'ms; d = p = 32; goal for 16 against 1: 0.33':52}" + "".join(f"{head:>14}" for head in heads))
    for name in NAMES:
        times = step_times(name)
        shown = [*(times[f"{n}"] for n in STACKS), times["16"] / times["1"], times.get("compiled", float("nan"))]
        print(f"{name:52}" + "".join(f"{number:14.2f}" for number in shown), flush=True)
