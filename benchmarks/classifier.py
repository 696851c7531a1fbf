"""How often is the verdict right? A confusion matrix over models whose mechanism is known.

    nice -n 10 python -m benchmarks.classifier out/classifier [--train] [--constructions 300] [--json FILE]

Four kinds of truth: constructions of random size under random symmetries, planted hybrids, models that do not count,
and trained models from regimes where only one mechanism is possible (with the zoo's). Trained models come from the
cache that `benchmarks.classifier_runs` fills; `--train` fills it first. False verdicts are printed with their evidence.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import classifier_runs
from interp.classify import Verdict, classify
from interp.classify.verdict import LABELS
from models import CountingConfig, CountingTransformer, zoo
from models.config import VARIANTS
from models.constructions import CATALOGUE, construct
from models.symmetries import random_symmetry

SOLVED = 0.95  # validation accuracy from which on a trained model is scored as solved
FORCED_RC = ("dot", "bos", "bos+sftm")


@dataclass(frozen=True)
class Case:
    """A model, what it is, and the verdicts that are right for it."""

    kind: str
    name: str
    right: tuple[str, ...]
    model: CountingTransformer


def constructions(n: int, seed: int = 1) -> Iterator[Case]:
    """Every entry of the catalogue in turn, with random sizes, surplus, classes and symmetry. Entries whose frame is
    searched also come in the smallest dimension that is known for the paper's T = 32, L = 10."""
    rng = random.Random(seed)
    pure = [entry for entry in CATALOGUE.values() if entry.case != "hybrid"]
    for index in range(n):
        entry = pure[index % len(pure)]
        T = rng.randint(5, 24)
        L = rng.randint(3, min(T, 10, entry.longest))
        d: int | None = T + 1 + rng.randint(0, 6)
        if index < len(pure):
            T, L, d = 32, 10, None
        surplus = rng.choice([0, 0, 1, 7])
        p = entry.smallest_p(T, L) + surplus
        classes = L + rng.randint(0, 1)
        model = construct(entry.name, T=T, L=L, d=d, p=p, n_classes=classes, seed=index)
        name = f"{entry.name} T={T} L={L} d={model.config.d} p={p} classes={classes}"
        yield Case("construction", name, (entry.mechanism,), random_symmetry(model, index, rename=True))


def hybrids(seed: int = 2) -> Iterator[Case]:
    """Planted mixtures; from 0.3 to 0.7 neither pure verdict is right."""
    rng = random.Random(seed)
    for name in (entry.name for entry in CATALOGUE.values() if entry.case == "hybrid"):
        for weight in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7):
            for T, L in ((32, 10), (rng.randint(6, 20), rng.randint(5, 6))):
                model = construct(name, T=T, L=L, weight=weight)
                case = random_symmetry(model, rng.randint(0, 999), rename=True)
                yield Case("hybrid", f"{name} w={weight} T={T} L={L}", ("mixed",), case)


def unsolved(seed: int = 3) -> Iterator[Case]:
    """Constant, untrained, right for small counts only, and about 60 % accurate."""
    for index, variant in enumerate(VARIANTS):
        config = CountingConfig.parse(variant, T=16, L=8, d=20, p=24, seed=index)
        yield Case("unsolved", f"untrained {variant}", ("unsolved",), CountingTransformer(config))
        constant = CountingTransformer(config)
        constant.blocks[0].mlp.W_out.data.zero_()
        yield Case("unsolved", f"constant {variant}", ("unsolved",), constant)
    for name in (entry.name for entry in CATALOGUE.values() if entry.least_d is None):
        small = construct(name, T=12, L=6)
        small.blocks[0].mlp.b_out.data[2:] -= 1e6
        yield Case("unsolved", f"{name}, counts 1 and 2 only", ("unsolved",), small)
        yield Case("unsolved", f"{name}, 60 % right", ("unsolved",), _spoilt(name, 0.6, seed))


def _spoilt(name: str, accuracy: float, seed: int) -> CountingTransformer:
    """A construction with noise on its embeddings, as much as it takes to come down to an accuracy."""
    exact = construct(name, T=12, L=6)
    noise = torch.randn(exact.W_E.shape, generator=torch.Generator().manual_seed(seed), dtype=exact.W_E.dtype)
    low, high = 0.0, 4.0
    for _ in range(12):
        middle = (low + high) / 2
        model = CountingTransformer(exact.config, exact.state_dict())
        model.W_E.data += middle * noise
        low, high = (middle, high) if model.accuracy(n=300) > accuracy else (low, middle)
    return model


def trained(folder: Path) -> Iterator[Case]:
    """Solved runs of the forced regimes, from the cache, and the zoo's."""
    for name in ("relation", "inventory"):
        for plan, model in classifier_runs.finished(classifier_runs.SETS[name](), folder):
            solved = model.metadata["accuracy"]["value"] >= SOLVED
            right = (str(plan.truth),) if solved else (str(plan.truth), "unsolved")
            yield Case("trained" if solved else "trained, not solved", plan.file, right, model)
    for name in zoo.names():
        model = zoo.load(name)
        c, solved = model.config, model.accuracy(n=1000, sampler="published") >= SOLVED
        forced = "RC" if c.name in FORCED_RC and c.p <= 4 else None if c.name in FORCED_RC else "IC"
        if forced is not None:
            yield Case("zoo", name, (forced,) if solved else (forced, "unsolved"), model)


def report(cases: Iterator[Case], results: list[tuple[Case, Verdict]]) -> None:
    """Classify, and print each false verdict with its evidence as it comes."""
    for case in cases:
        verdict = classify(case.model)
        results.append((case, verdict))
        if verdict.label not in case.right:
            print(f"FALSE  {case.kind}: {case.name}: {verdict.label}, right: {' or '.join(case.right)}")
            print("\n".join(f"       {line}" for line in str(verdict).splitlines()), flush=True)


def matrix(results: list[tuple[Case, Verdict]]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for case, verdict in results:
        counts[case.kind, " or ".join(case.right), verdict.label] += 1
    lines = [f"{'kind':22}{'truth':16}" + "".join(f"{label:>10}" for label in LABELS)]
    for kind, truth in sorted({key[:2] for key in counts}):
        lines.append(f"{kind:22}{truth:16}" + "".join(f"{counts[kind, truth, label]:>10}" for label in LABELS))
    false = sum(verdict.label not in case.right for case, verdict in results)
    lines.append(f"{len(results)} models, {false} false verdicts")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="cache of trained models")
    parser.add_argument("--constructions", type=int, default=300)
    parser.add_argument("--train", action="store_true", help="train what the cache lacks, first")
    parser.add_argument("--json", type=Path, help="write every verdict here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.train:
        classifier_runs.main(options.folder, ["relation", "inventory"])
    began, results = time.perf_counter(), list[tuple[Case, Verdict]]()
    for cases in (constructions(options.constructions), hybrids(), unsolved(), trained(options.folder)):
        report(cases, results)
        print(f"{len(results)} models after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print(matrix(results))
    if options.json:
        rows = [
            {"kind": case.kind, "name": case.name, "right": case.right, **verdict.to_dict()}
            for case, verdict in results
        ]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
