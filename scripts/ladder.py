"""The ladder: from the paper's block to a transformer's, one part at a time. Which runs count, and how?

    nice -n 19 python -m scripts.ladder out/ladder            # trains and classifies missing runs
    python -m scripts.ladder out/ladder --publish docs        # the table, and its files for docs/ladder.md

Every rung adds one part to the one before. Runs of one rung and size are trained as a stack. Each run is a checkpoint
with a JSON line beside it. So the script can be killed at any moment and loses at most the current stack. Several
processes may share a folder. A run depends on its seed alone (and, in its last digits, on `--compiled`). `--again`
classifies the checkpoints again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.standard import StandardCounter
from benchmarks.truth_training import train
from counting_interp.interp.verdict import classify
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe, Run, advance_together
from counting_interp.util.errors import Held
from counting_interp.util.files import held, write_atomically

RUNGS = {  # the part that is added, and the options of the model's name
    "the paper's": "",
    "values": "+values",
    "heads": "+values+4heads",
    "layer norm": "+values+4heads+norm",
    "GELU": "+values+4heads+norm+gelu",
    "positions": "+values+4heads+norm+gelu+positions",
    "causal": "+values+4heads+norm+gelu+positions+causal",
    "weight decay": "+values+4heads+norm+gelu+positions+causal",
    "unembedding": "+values+4heads+norm+gelu+positions+causal",
    "residual": "+values+4heads+norm+gelu+positions+causal",
    "final norm": "+values+4heads+norm+gelu+positions+causal",
    "two layers": "+values+4heads+norm+gelu+positions+causal",
    "four layers": "+values+4heads+norm+gelu+positions+causal",
}
STANDARD: dict[str, dict[str, Any]] = {  # rungs that only `benchmarks.standard` has; from "final norm" on GPT blocks
    "unembedding": {"residual": False, "final_norm": False},
    "residual": {"final_norm": False},
    "final norm": {},
    "two layers": {},
    "four layers": {},
}
LAYERS = {"two layers": 2, "four layers": 4}  # of the other rungs: 1
VARIANTS = {False: "dot+sftm", True: "bos+sftm"}  # without and with `$`
SIZES = ((16, 6, 32), (32, 10, 64))  # T, L, d = 2T
UNITS = (4, 64)  # p: too few units for an inventory of all tokens, and enough
SEEDS = range(4)  # of each stack
WEIGHT_DECAY = 0.1
RECIPE = Recipe(epochs=30, lr=2e-3, schedule="cosine")


@dataclass(frozen=True)
class RungAndSize:
    """The rung, the sizes and whether there is a `$`: all that runs of one stack share."""

    rung: str
    bos: bool
    T: int
    L: int
    d: int
    p: int


@dataclass(frozen=True)
class Judged:
    """A seed and the verdict on its model."""

    seed: int
    accuracy: float
    mechanism: str
    leans: str
    RC: float | None
    IC: float | None
    gated: float | None


@dataclass(frozen=True)
class LadderRow(Judged, RungAndSize):
    """One run: columns of RungAndSize, then of Judged."""


@dataclass(frozen=True)
class Stack(RungAndSize):
    """Runs that differ in their seed only."""

    seeds: range

    @property
    def name(self) -> str:
        name = f"T{self.T}_p{self.p}_{VARIANTS[self.bos]}_{list(RUNGS).index(self.rung)}-{self.rung}"
        return name.replace(" ", "-").replace("'", "")

    def config(self, seed: int) -> CountingConfig:
        return CountingConfig.parse(
            VARIANTS[self.bos] + RUNGS[self.rung], T=self.T, L=self.L, d=self.d, p=self.p, seed=seed
        )

    def standard(self, seed: int) -> StandardCounter:
        """The model of one of the rungs of STANDARD."""
        sizes: dict[str, Any] = {"T": self.T, "L": self.L, "d": self.d, "p": self.p, "bos": self.bos, "seed": seed}
        mixers = ("free",) * LAYERS.get(self.rung, 1)
        return StandardCounter(**sizes, mixers=mixers, n_heads=4, positions=True, causal=True, **STANDARD[self.rung])

    def load(self, folder: Path, seed: int) -> CountingTransformer | StandardCounter:
        if self.rung not in STANDARD:
            return CountingTransformer.load(self.checkpoint(folder, seed))
        model = self.standard(seed)
        model.load_state_dict(load_file(self.checkpoint(folder, seed)))
        return model

    @property
    def recipe(self) -> Recipe:
        return RECIPE if self.rung != "weight decay" else Recipe(**{**asdict(RECIPE), "weight_decay": WEIGHT_DECAY})

    def checkpoint(self, folder: Path, seed: int) -> Path:
        return folder / f"{self.name}_s{seed}.safetensors"

    def line(self, folder: Path, seed: int) -> Path:
        return folder / f"{self.name}_s{seed}.json"


def stacks() -> Iterator[Stack]:
    """All stacks, from the paper's block upwards, the small size first."""
    for T, L, d in SIZES:
        for rung in RUNGS:
            for p in UNITS:
                for bos in VARIANTS:
                    yield Stack(rung, bos, T, L, d, p, SEEDS)


def work(stack: Stack, folder: Path, again: bool, compiled: bool) -> None:
    """Train and classify the missing runs of a stack; with `again`, classify all of them."""
    missing = [seed for seed in stack.seeds if not stack.checkpoint(folder, seed).exists()]
    if stack.rung in STANDARD and missing:
        models = [stack.standard(seed) for seed in missing]
        options: dict[str, Any] = {"batch": RECIPE.batch_size, "lr": RECIPE.lr, "weight_decay": WEIGHT_DECAY}
        train(models, dict, steps=RECIPE.epochs * RECIPE.steps_per_epoch, seed=missing[0], **options)
        for seed, model in zip(missing, models, strict=True):
            save_file(model.state_dict(), stack.checkpoint(folder, seed))
        missing = []
    runs = {seed: Run(stack.config(seed), stack.recipe) for seed in missing}
    fast = None
    if runs and compiled:
        from scripts.compiled_steps import compiled_step

        fast = compiled_step(stack.config(0), stack.recipe.batch_size, len(runs))
    while runs and not next(iter(runs.values())).finished:
        advance_together(list(runs.values()), fast)
    for seed, run in runs.items():
        run.model().save(stack.checkpoint(folder, seed))
    for seed in stack.seeds:
        if again or not stack.line(folder, seed).exists():
            row = LadderRow(**rung_and_size(stack), **judged(stack.load(folder, seed), seed))
            write_atomically(stack.line(folder, seed), (json.dumps(asdict(row)) + "\n").encode())


def judged(model: CountingTransformer | StandardCounter, seed: int) -> dict[str, Any]:
    """The fields of `Judged`."""
    verdict = classify(model)
    label = "undecided" if verdict.mechanism == "undecided" else verdict.mechanism.group
    said = {"accuracy": round(verdict.accuracy, 5), "mechanism": label, "leans": verdict.leans or ""}
    shares = {share.name: None if share.value != share.value else round(share.value, 4) for share in verdict.shares}
    return {"seed": seed, **said, **shares}


def rung_and_size(stack: Stack) -> dict[str, Any]:
    return {field.name: getattr(stack, field.name) for field in fields(RungAndSize)}


def climb(folder: Path, again: bool = False, compiled: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stack in stacks():
        if not again and all(stack.line(folder, seed).exists() for seed in stack.seeds):
            continue
        try:
            with held(folder / stack.name):
                began = time.process_time()
                work(stack, folder, again, compiled)
                print(f"{stack.name}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
        except Held:
            continue


def finished(folder: Path) -> list[LadderRow]:
    """Every finished run, in the order of the ladder."""
    rows = []
    for stack in stacks():
        for seed in stack.seeds:
            if (line := stack.line(folder, seed)).exists():
                rows.append(LadderRow(**json.loads(line.read_text())))
    return sorted(rows, key=lambda row: (row.T, row.p, row.bos, list(RUNGS).index(row.rung), row.seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="of checkpoints and JSON lines")
    parser.add_argument("--again", action="store_true", help="classify every checkpoint again")
    parser.add_argument("--compiled", action="store_true", help="steps as compiled code, twice as fast; needs g++")
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="DOCS",
        help="train nothing; print the table of the finished runs, and write tables/ladder.csv and pictures/ladder.svg",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.publish is None:
        climb(options.folder, options.again, options.compiled)
    from scripts.ladder_table import publish

    publish(finished(options.folder), options.publish)


if __name__ == "__main__":
    main()
