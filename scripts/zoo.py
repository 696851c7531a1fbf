"""Makes the bundled checkpoints, the zoo.

    python -m scripts.zoo WORK [NAME ...]        # trains them
    python -m scripts.zoo --proved [NAME ...]    # repairs bundled ones (NAME) until they are proved

Every finished run is a checkpoint in WORK, where a killed build resumes. All models have T = 32, L = 10 and the
published budget. Models of the paper's figures are trained as the authors did, with the `published` sampler and L + 1
classes. Such a model has never seen L equal tokens. The others are trained with the `paper` sampler. Rounding differs
between processors and versions of the training kernels, so a build does not reproduce the bundled weights.
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from counting_interp.data import ZOO
from counting_interp.interp.proof.repair import Repair, progress_line, write
from counting_interp.models.config import CountingConfig
from counting_interp.models.training import Recipe, train
from counting_interp.models.transformer import CountingTransformer


@dataclass(frozen=True)
class Entry:
    """One checkpoint of the zoo: which seeds are trained for it, and which run is kept."""

    variant: str
    d: int
    p: int
    sampler: str
    seeds: int
    keep: str  # best | worst, by accuracy after the last epoch
    why: str
    enough: float = 1.0  # accuracy at which no further seed is tried

    @property
    def name(self) -> str:
        return f"{self.variant}-d{self.d}-p{self.p}"

    def config(self, seed: int) -> CountingConfig:
        classes = 11 if self.sampler == "published" else 10
        return CountingConfig.parse(self.variant, T=32, L=10, d=self.d, p=self.p, n_classes=classes, seed=seed)


OPEN = "d, p >= T: both mechanisms are possible and the paper leaves open which is used"
SOLVED = "a solved model of its variant"
ENTRIES = (
    Entry("bos+sftm", 45, 2, "published", 60, "best", "Fig. 3: relation-based counting", enough=0.999),
    Entry("dot", 45, 4, "paper", 4, "best", SOLVED),
    Entry("bos", 45, 4, "paper", 4, "best", SOLVED),
    Entry("dot+sftm", 32, 32, "published", 5, "best", "Fig. 4: inventory-based counting"),
    Entry("lin+sftm", 64, 64, "published", 2, "best", "Fig. 4: inventory-based counting"),
    Entry("lin", 64, 64, "paper", 3, "best", SOLVED),
    Entry("dot", 64, 64, "paper", 5, "best", OPEN),
    Entry("bos", 64, 64, "paper", 2, "best", OPEN),
    Entry("bos+sftm", 64, 64, "paper", 2, "best", OPEN),
    Entry("dot+sftm", 64, 128, "paper", 3, "best", SOLVED),
    Entry("dot+sftm", 3, 32, "published", 5, "worst", "Fig. 5: entangled embeddings (the authors show the worst run)"),
    Entry("dot+sftm", 8, 32, "published", 5, "worst", "Fig. 5: entangled embeddings (the authors show the worst run)"),
    Entry("dot+sftm", 23, 32, "published", 5, "worst", "Fig. 5: entangled embeddings (the authors show the worst run)"),
)
PROVED = ("bos-d45-p4", "bos+sftm-d64-p64", "dot-d64-p64", "dot+sftm-d64-p128", "lin+sftm-d64-p64")  # the parents
PROOF_SECONDS = 1800.0  # a model without a proof by then is not bundled


def proved_name(parent: str) -> str:
    return f"{parent}-proved"


def finished_run(entry: Entry, seed: int, work: Path) -> tuple[float, Path]:
    """Accuracy and checkpoint of one run, which is trained if the checkpoint is missing."""
    file = work / f"{entry.name}-seed{seed}.safetensors"
    if not file.exists():
        recipe = Recipe(sampler=entry.sampler)
        run = train(entry.config(seed), recipe)
        model = run.model()
        accuracy = {"value": run.accuracies[-1], "n_sequences": recipe.validation, "sampler": entry.sampler}
        model.metadata.update(task={"sampler": entry.sampler}, training=recipe.to_dict(), seed=seed, accuracy=accuracy)
        model.metadata["step"] = recipe.epochs * recipe.steps_per_epoch
        model.save(file)
    return CountingTransformer.load(file).metadata["accuracy"]["value"], file


def make(entry: Entry, work: Path) -> None:
    runs: list[tuple[float, Path]] = []
    for seed in range(entry.seeds):
        runs.append(finished_run(entry, seed, work))
        print(f"{runs[-1][1].name}: {runs[-1][0]:.5f}", file=sys.stderr, flush=True)
        if entry.keep == "best" and runs[-1][0] >= entry.enough:
            break
    accuracy, file = (max if entry.keep == "best" else min)(runs)
    model = CountingTransformer.load(file)
    model.metadata["zoo"] = {"why": entry.why, "chosen": f"{entry.keep} of {len(runs)} seeds by final accuracy"}
    chosen = work / f"{entry.name}.safetensors"
    model.save(chosen)
    shutil.copyfile(chosen, ZOO / chosen.name)
    print(f"kept {file.name} as {entry.name}: {accuracy:.5f}", file=sys.stderr, flush=True)


def make_proved(parent: str) -> None:
    """Repair a bundled model until it is proved, and bundle the result."""
    file = ZOO / f"{proved_name(parent)}.safetensors"
    began = time.process_time()
    run = Repair(CountingTransformer.load(parent))
    while not run.certified and time.process_time() - began < PROOF_SECONDS:
        print(f"{parent}, {time.process_time() - began:.1f} s: {progress_line(run.rounds[-1])}", flush=True)
        run.advance()
    if not run.certified:
        sys.exit(f"{parent}: no proof")
    write(run, file)
    seconds = time.process_time() - began
    model = CountingTransformer.load(file)
    model.metadata["repair"]["processor_seconds"] = round(seconds, 1)
    why = f"{parent}, trained until it was proved right on every sequence"
    model.metadata["zoo"] = {"why": why, "chosen": "the first proof"}
    model.save(file)
    print(f"{parent}, {seconds:.1f} s: {run.certificate}", flush=True)


def main(work: Path, wanted: list[str]) -> None:
    work.mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        if not wanted or entry.name in wanted:
            make(entry, work)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m scripts.zoo WORK|--proved [NAME ...]")
    if sys.argv[1] == "--proved":
        torch.set_num_threads(1)
        for name in sys.argv[2:] or PROVED:
            make_proved(name)
    else:
        main(Path(sys.argv[1]), sys.argv[2:])
