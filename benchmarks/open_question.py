"""What the paper leaves open: dot, bos and bos+sftm with p, d >= T. The tables of docs/open-question.md.

    nice -n 10 python -m benchmarks.open_question out/classifier [--train]

Classifies the `open` runs of `benchmarks.classifier_runs` and the zoo's models of that regime.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import torch

from benchmarks import classifier_runs
from interp.classify import Verdict, classify
from interp.classify.verdict import LABELS
from models import zoo

COLUMNS = ("kept", "with_t", "with_s", "transfer", "directions")


def verdicts(folder: Path) -> list[tuple[str, int, str, Verdict]]:
    """(variant, d = p, which run, verdict)."""
    found = [
        (plan.config.name, plan.config.d, f"seed {plan.config.seed}", classify(model))
        for plan, model in classifier_runs.finished(classifier_runs.left_open(), folder)
    ]
    for name in zoo.names():
        model = zoo.load(name)
        c = model.config
        if "repair" in model.metadata:  # its parent is there
            continue
        if c.name in classifier_runs.COMPARING and min(c.d, c.p) >= c.T and c.n_layers == 1:
            found.append((c.name, c.d, f"zoo {name}", classify(model)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="cache of trained models")
    parser.add_argument("--train", action="store_true", help="train what the cache lacks, first")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.train:
        classifier_runs.main(options.folder, ["open"])
    rows = verdicts(options.folder)
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for variant, size, _, verdict in rows:
        groups[variant, size].append(verdict)
    print(
        "| model | d = p | runs | " + " | ".join(LABELS) + " | kept | follows t | follows s | transfer | directions |"
    )
    print("|---|---|---|" + "---|" * (len(LABELS) + len(COLUMNS)))
    for (variant, size), group in sorted(groups.items()):
        labels = Counter(verdict.label for verdict in group)
        solved = [verdict.row() for verdict in group if verdict.label != "unsolved"]
        middle = [f"{median(float(row[name] or 0) for row in solved):.2f}" if solved else "-" for name in COLUMNS]
        counts = " | ".join(str(labels[label]) for label in LABELS)
        print(f"| {variant} | {size} | {len(group)} | {counts} | " + " | ".join(middle) + " |")
    print("\nEvery run that is solved and not RC:\n")
    for variant, size, which, verdict in rows:
        if verdict.label in ("IC", "mixed"):
            print(f"- {variant}, d = p = {size}, {which}: {verdict.label}, {verdict.case} ({verdict.accuracy:.1%})")
            print("".join(f"  - {line}\n" for line in verdict.evidence), end="")


if __name__ == "__main__":
    main()
