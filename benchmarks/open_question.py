"""What the paper leaves open: dot, bos and bos+sftm where p, d >= T, and where d < T.

Prints the tables of docs/open-question.md and docs/verdict.md:

    nice -n 10 python -m benchmarks.open_question out/classifier [open|below] [--train]

Classifies the runs of `benchmarks.classifier_runs` that are in the cache; to `open` the zoo's models are added.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import torch

from benchmarks import classifier_runs
from counting_interp.data import zoo_names
from counting_interp.interp.verdict import Verdict, classify
from counting_interp.interp.verdict.verdict import LABELS
from counting_interp.models import CountingTransformer

COLUMNS = ("kept", "with_t", "with_s", "transfer", "directions")
HOPELESS = 0.85  # validation accuracy below which a run counts as unsolved without a look


def verdicts(which: str, folder: Path) -> Iterator[tuple[str, Verdict]]:
    """Name and verdict of every run that has come near to counting."""
    for plan, model in classifier_runs.finished(classifier_runs.SETS[which](classifier_runs.FIRST), folder):
        if model.metadata["accuracy"]["value"] >= HOPELESS:
            yield f"seed {plan.config.seed}", classify(model)
    for name in zoo_names() if which == "open" else ():
        c = (model := CountingTransformer.load(name)).config
        if "repair" in model.metadata:  # its parent is there
            continue
        if c.name in classifier_runs.COMPARING and min(c.d, c.p) >= c.T and c.n_layers == 1:
            yield f"zoo {name}", classify(model)


def open_table(rows: list[tuple[str, Verdict]]) -> None:
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for _, verdict in rows:
        groups[verdict.config.name, verdict.config.d].append(verdict)
    head = ("model", "d = p", *LABELS, "kept", "follows t", "follows s", "transfer", "directions")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for (variant, size), group in sorted(groups.items()):
        labels = Counter(verdict.label for verdict in group)
        solved = [verdict for verdict in group if verdict.label != "unsolved"]
        middle = [f"{_median(solved, name):.2f}" if solved else "-" for name in COLUMNS]
        print(f"| {' | '.join([variant, str(size), *(str(labels[label]) for label in LABELS), *middle])} |")
    print("\nEvery run that is solved and not RC:\n")
    for which, verdict in rows:
        if verdict.label in ("IC", "mixed"):
            c = verdict.config
            print(f"- {c.name}, d = p = {c.d}, {which}: {verdict.label}, {verdict.case} ({verdict.accuracy:.1%})")
            print("".join(f"  - {line}\n" for line in verdict.evidence), end="")


def below_table(rows: list[tuple[str, Verdict]], folder: Path) -> None:
    """One row for each (T, d, p); for each variant the cases of the runs, then the medians of kept and follows t."""
    trained: Counter[tuple[int, int, int, str]] = Counter()
    for plan in classifier_runs.below(classifier_runs.FIRST):
        c = plan.config
        trained[c.T, c.d, c.p, c.name] += (folder / plan.file).exists()
    solved: dict[tuple[int, int, int, str], list[Verdict]] = defaultdict(list)
    for _, verdict in rows:
        sizes = verdict.config
        if verdict.label != "unsolved":
            solved[sizes.T, sizes.d, sizes.p, sizes.name].append(verdict)
    print(f"| T | d | p | {' | '.join(classifier_runs.COMPARING)} |\n|{'---|' * (3 + len(classifier_runs.COMPARING))}")
    for T, d, p in dict.fromkeys(key[:3] for key in trained):
        cells = []
        for variant in classifier_runs.COMPARING:
            group, n = solved[T, d, p, variant], trained[T, d, p, variant]
            cases = Counter(verdict.label if verdict.label != "mixed" else str(verdict.case) for verdict in group)
            words = ", ".join(f"{count} {case}" for case, count in cases.most_common())
            numbers = f"; {_median(group, 'kept'):.2f}; {_median(group, 'with_t'):.2f}" if group else ""
            cells.append(f"{words or '-'} of {n}{numbers}")
        print(f"| {T} | {d} | {p} | {' | '.join(cells)} |")
    totals = Counter(
        (v.config.name, v.label if v.label != "mixed" else v.case) for group in solved.values() for v in group
    )
    print("\n" + "\n".join(f"{variant}: {case} {count}" for (variant, case), count in sorted(totals.items())))


def _median(group: list[Verdict], name: str) -> float:
    return median(float(verdict.row()[name] or 0) for verdict in group)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="cache of trained models")
    parser.add_argument("which", nargs="?", choices=["open", "below"], default="open")
    parser.add_argument("--train", action="store_true", help="train what the cache lacks, first")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.train:
        classifier_runs.fill(options.folder, [options.which], classifier_runs.FIRST)
    rows = list(verdicts(options.which, options.folder))
    if options.which == "open":
        open_table(rows)
    else:
        below_table(rows, options.folder)


if __name__ == "__main__":
    main()
