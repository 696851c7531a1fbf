"""The trained models behind the verdict: which runs are scored, and which ones the paper leaves open.

Runs are cached as checkpoints in a folder and resumed after the last finished one:

    nice -n 10 python -m benchmarks.classifier_runs out/classifier relation inventory open

A run stops as soon as its validation accuracy says that it is solved, or after its epochs. Its seeds are 2000 and up;
thresholds were chosen on other runs (seeds 1000 to 1006 of the same sizes, and 7000 to 9003).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from models import CountingConfig, CountingTransformer
from models.training import Recipe, Run

COMPARING = ("dot", "bos", "bos+sftm")


@dataclass(frozen=True)
class Plan:
    """One run: `truth` is the only mechanism its architecture allows, None where the paper leaves it open."""

    config: CountingConfig
    epochs: int
    enough: float
    truth: str | None

    @property
    def file(self) -> str:
        c = self.config
        return f"{c.name}_T{c.T}_L{c.L}_d{c.d}_p{c.p}_s{c.seed}.safetensors"


def relation() -> Iterator[Plan]:
    """An attention that can compare and too few hidden units for an inventory: only RC."""
    for T, L, d, p, seeds in (
        (16, 8, 24, 4, 4),
        (15, 5, 24, 3, 3),
        (24, 6, 32, 4, 7),
        (32, 10, 45, 4, 2),
        (20, 5, 28, 4, 4),
    ):
        for variant in COMPARING:
            yield from _seeds(variant, T, L, d, p, seeds, epochs=120, enough=0.97, truth="RC")


def inventory() -> Iterator[Plan]:
    """An attention that cannot compare, or whose shares cannot carry the comparison: only IC."""
    for T, L, d, p, seeds in (
        (15, 5, 32, 32, 4),
        (16, 8, 32, 48, 3),
        (12, 6, 24, 24, 3),
        (32, 10, 64, 64, 2),
        (10, 4, 20, 24, 3),
    ):
        for variant in ("lin", "lin+sftm", "dot+sftm"):
            yield from _seeds(variant, T, L, d, p, seeds, epochs=80, enough=0.98, truth="IC")


def left_open() -> Iterator[Plan]:
    """An attention that can compare and units enough for an inventory: T = 32, L = 10, d = p."""
    for size, seeds in ((32, 5), (64, 5), (45, 5), (128, 3)):
        for variant in COMPARING:
            yield from _seeds(variant, 32, 10, size, size, seeds, epochs=80, enough=0.99, truth=None)


SETS = {"relation": relation, "inventory": inventory, "open": left_open}


def _seeds(variant: str, T: int, L: int, d: int, p: int, n: int, **rest: object) -> Iterator[Plan]:
    for seed in range(2000, 2000 + n):
        yield Plan(CountingConfig.parse(variant, T=T, L=L, d=d, p=p, seed=seed), **rest)  # type: ignore[arg-type]


def trained(plan: Plan, folder: Path) -> CountingTransformer:
    """The run's final model, from the cache or trained now."""
    path = folder / plan.file
    if not path.exists():
        model = _train(plan)
        folder.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return CountingTransformer.load(path)


def finished(plans: Iterator[Plan], folder: Path) -> list[tuple[Plan, CountingTransformer]]:
    """The runs that are in the cache."""
    return [(plan, trained(plan, folder)) for plan in plans if (folder / plan.file).exists()]


def _train(plan: Plan) -> CountingTransformer:
    recipe = Recipe(epochs=plan.epochs)
    run = Run(plan.config, recipe)
    while not run.finished and (run.epoch == 0 or run.accuracies[-1] < plan.enough):
        run.advance()
    model = run.model()
    model.metadata |= {
        "task": {"sampler": recipe.sampler},
        "training": {**recipe.to_dict(), "epochs": run.epoch},
        "seed": plan.config.seed,
        "step": run.step,
        "accuracy": {"value": run.accuracies[-1], "n_sequences": recipe.validation, "sampler": recipe.sampler},
    }
    return model


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        for plan in SETS[name]():
            if not (folder / plan.file).exists():
                began = time.perf_counter()
                facts = trained(plan, folder).metadata
                spent = time.perf_counter() - began
                accuracy, epochs = facts["accuracy"]["value"], facts["training"]["epochs"]
                print(f"{plan.file}  {accuracy:.4f} after {epochs} epochs, {spent:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(SETS))
