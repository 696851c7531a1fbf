"""How many trained models does `repair` bring to a certificate, and how fast, on one core?

    python -m benchmarks.repair WORK [--seeds 10] [--epochs 100] [--time 120] [--only dot-d64-p64 bos-d8-p32 ...]
    python -m benchmarks.repair WORK --frontier src/counting_interp/data/certified_T32_L10.csv

Trains every model from its seed (T = 32, L = 10, the paper's sampler), repairs it, and classifies it before and after.
Training has fewer epochs than the published 500, since repair continues it. Seconds are processor time of this process,
so other work on the machine matters little. Compilation (once per installation) is not counted. Every finished model is
a file in WORK, so a killed benchmark resumes. It prints a table at the end. `--only` takes any sizes. `--frontier`
writes the smallest certified d for every variant and p, from the models in WORK and the zoo.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from counting_interp.data import zoo_names
from counting_interp.interp.proof.cells import compile_kernels
from counting_interp.interp.proof.repair import Repair, history, write
from counting_interp.interp.verdict import classify
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe, train
from counting_interp.util.files import write_atomically


@dataclass(frozen=True)
class Kind:
    """A variant with its sizes, and the goal."""

    variant: str
    d: int
    p: int
    goal: str

    @property
    def name(self) -> str:
        return f"{self.variant}-d{self.d}-p{self.p}"


MOST = "8 of 10, median under 60 s"
KINDS = (
    Kind("bos", 45, 8, MOST),
    Kind("bos+sftm", 45, 8, MOST),
    Kind("dot", 45, 8, MOST),
    Kind("dot+sftm", 64, 128, MOST),
    Kind("dot", 64, 64, "5 of 10"),
    Kind("lin", 64, 64, "as far as it goes"),
    Kind("lin+sftm", 64, 64, "as far as it goes"),
)


def kind_of(name: str) -> Kind:
    """The kind of a name such as `dot-d64-p64`: one of KINDS, or another size."""
    variant, d, p = name.split("-")
    return next((kind for kind in KINDS if kind.name == name), Kind(variant, int(d[1:]), int(p[1:]), "-"))


def frontier(work: Path) -> list[tuple[str, int, int]]:
    """Each variant and p, with the smallest d of a certified model."""
    models = [CountingTransformer.load(file) for file in sorted(work.glob("*-repaired.safetensors"))]
    models += [CountingTransformer.load(name) for name in zoo_names()]
    smallest: dict[tuple[str, int], int] = {}
    for model in models:
        cell = (model.config.name, model.config.p)
        if model.metadata.get("repair", {}).get("verdict") == "certified":
            smallest[cell] = min(model.config.d, smallest.get(cell, model.config.d))
    return [(variant, p, d) for (variant, p), d in sorted(smallest.items())]


def trained(kind: Kind, seed: int, epochs: int, work: Path) -> CountingTransformer:
    file = work / f"{kind.name}-e{epochs}-seed{seed}.safetensors"
    if not file.exists():
        config = CountingConfig.parse(kind.variant, T=32, L=10, d=kind.d, p=kind.p, seed=seed)
        train(config, Recipe(epochs=epochs)).model().save(file)
    return CountingTransformer.load(file)


def measured(kind: Kind, seed: int, epochs: int, limit: float, work: Path) -> dict[str, Any]:
    """Measurements of one model, read from WORK or made now."""
    file = work / f"{kind.name}-e{epochs}-seed{seed}.json"
    if file.exists():
        return json.loads(file.read_text())
    parent = trained(kind, seed, epochs, work)
    began = time.process_time()
    run = Repair(parent)
    while not run.certified and time.process_time() - began < limit:
        run.advance(limit - (time.process_time() - began))
    seconds = time.process_time() - began
    repaired = write(run, work / f"{kind.name}-e{epochs}-seed{seed}-repaired.safetensors")
    facts = {
        **history(run),  # its `seed` is that of the repair and is replaced below
        "kind": kind.name,
        "seed": seed,
        "processor_seconds": seconds,
        "accuracy": [parent.accuracy(), repaired.accuracy()],
        "labels": [classify(model).mechanism.value for model in (parent, repaired)],
    }
    write_atomically(file, json.dumps(facts, indent=1).encode())
    return facts


def row(kind: Kind, found: list[dict[str, Any]]) -> str:
    proved = [facts for facts in found if facts["verdict"] == "certified"]
    in_float32 = sum(facts["precision"] == "float32" for facts in proved)
    median = f"{statistics.median(facts['processor_seconds'] for facts in proved):.1f}" if proved else "-"
    slowest = f"{max(facts['processor_seconds'] for facts in proved):.1f}" if proved else "-"
    solved = [facts for facts in found if facts["labels"][0] != "unsolved"]
    same = sum(facts["labels"][0] == facts["labels"][1] for facts in solved)
    least = min(facts["proved_cells"] for facts in found)
    return (
        f"| {kind.name} | {kind.goal} | {len(proved)} of {len(found)} ({in_float32} in float32) | {median} | {slowest} "
        f"| {least} of {found[0]['cells']} | {same} of {len(solved)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trained, then proved")
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--time", type=float, default=120.0, help="seconds for each repair")
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--frontier", type=Path, help="write the smallest certified sizes to this CSV, and stop")
    options = parser.parse_args()
    if options.frontier:
        rows = [("variant", "p", "d"), *frontier(options.work)]
        write_atomically(options.frontier, "".join(",".join(map(str, row)) + "\n" for row in rows).encode())
        return
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    compile_kernels()
    kinds = [kind_of(name) for name in options.only] if options.only else list(KINDS)
    for kind in kinds:  # compile the training of each kind
        config = CountingConfig.parse(kind.variant, T=32, L=10, d=kind.d, p=kind.p)
        train(config, Recipe(epochs=1, sequences=32, validation=32))
    found: dict[str, list[dict[str, Any]]] = {kind.name: [] for kind in kinds}
    for seed in range(options.seeds):
        for kind in kinds:
            facts = measured(kind, seed, options.epochs, options.time, options.work)
            found[kind.name].append(facts)
            print(json.dumps(facts), flush=True)
    print(
        "| model | goal | certified | median s | slowest s | fewest cells proved | solved before: same verdict after |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in kinds:
        print(row(kind, found[kind.name]))


if __name__ == "__main__":
    main()
