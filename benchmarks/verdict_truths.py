"""Is the verdict right? Classifies models of every family of known mechanism and writes one table.

    nice -n 10 python -m benchmarks.truth_training out/truths --set third        # the trained ones
    nice -n 10 python -m benchmarks.verdict_truths out/truths third.csv --set third --each 9
    python -m benchmarks.verdict_truths --publish first.csv second.csv third.csv docs/tables/verdict-truths.csv

Rows are appended as they are measured, so a killed run resumes. The committed table also has the labels of two older
rules, which `--publish` keeps and which are empty for newer rows. The `first form` set all blocks at one position, with
slopes from count 1 and no null. The `old rule` (flattening, cue conflict and transfer) needed hook points that only the
paper's blocks have here.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import tracr, truth_training
from benchmarks.hand import Truth
from benchmarks.truths import FAMILIES, SLOW
from counting_interp import data
from counting_interp.models import task
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry
from counting_interp.probes.depth_profile import depth_profile
from counting_interp.probes.transplants import DEEP, transplants

SOLVED = 0.95
FEW = 4  # models of each family of more than four blocks, which take seconds each
SIZES = ((8, 5), (8, 8), (10, 6), (12, 7), (16, 6), (16, 10), (24, 8), (32, 10), (64, 10))


@dataclass(frozen=True)
class Row:
    """One model: its truth and its verdict. `truth` joins the right labels by `|`; empty if only shares are known."""

    half: str
    family: str
    kind: str
    truth: str
    planted_rc: float | None
    planted_ic: float | None
    name: str
    seed: int
    T: int
    L: int
    blocks: int
    accuracy: float
    rc: float | None
    rc_low: float | None
    rc_high: float | None
    ic: float | None
    ic_low: float | None
    ic_high: float | None
    gated: float | None
    null: float
    relay: float
    elsewhere: float
    label: str
    first_form: str
    old_rule: str

    @property
    def key(self) -> tuple[Any, ...]:
        return self.half, self.family, self.kind, self.name, self.seed

    @property
    def solved(self) -> bool:
        return float(self.accuracy) >= SOLVED

    @property
    def false(self) -> bool:
        """Whether a model that counts has a wrong label. No label is not false."""
        return self.solved and self.is_wrong(self.label)

    def is_wrong(self, label: str) -> bool:
        return bool(label and self.truth and label not in self.truth.split("|"))


Case = tuple[str, str, Truth, str, int, Any]  # family, kind, truth, name, seed, model


def constructions(n: int, first: int) -> Iterator[Case]:
    """The catalogue at random sizes under random symmetries, and hybrids with planted shares.

    In ic-dot+sftm a share needs attention's match, so two labels are right for it.
    """
    rng = random.Random(first)
    for index in range(n):
        entry = list(CATALOGUE.values())[index % len(CATALOGUE)]
        T = rng.choice([4, 6, 8, 10, 12, 16, 20, 24])
        L = rng.randint(3, min(T, 10, entry.longest))
        options: dict[str, Any] = {}
        truth = Truth(("gated",) if entry.case == "gated" else (entry.mechanism,))
        if entry.case == "hybrid":
            w = round(rng.uniform(0.05, 0.95), 3)
            options, truth = {"weight": w}, Truth((), (w, 1 - w))
        if entry.name.startswith("ic-dot+sftm"):
            truth = Truth(("IC", "IC, sharpened by attention"))
        try:
            model = construct(
                entry.name, T=T, L=L, d=T + 1 + rng.randint(0, 4), dtype="float64", seed=first + index, **options
            )
        except ValueError:
            continue
        yield (
            entry.name,
            "construction",
            truth,
            f"T={T} L={L}",
            first + index,
            random_symmetry(model, first + index, rename=True),
        )


def by_hand(n: int, first: int) -> Iterator[Case]:
    for name, family in FAMILIES.items():
        for index in range(n):
            T, L = SIZES[index % len(SIZES)]
            if (name == "addressed inventory" and T > 16) or (name in SLOW and index >= FEW):
                continue
            rng = torch.Generator().manual_seed(first + index)
            model, truth = family(T, L, rng)
            yield name, "by hand", truth, f"T={T} L={L}", first + index, model


def trained(folder: Path, first: int) -> Iterator[Case]:
    for stack in truth_training.stacks():
        if (folder / f"{stack.name}_{first}.safetensors").exists():
            for seed, model in truth_training.trained(stack, folder, first):
                kind = "trained, paper's block" if stack.variant else "trained, standard block"
                yield stack.family, kind, Truth(tuple(stack.truth.split("|"))), stack.name, seed, model


def compiled() -> Iterator[Case]:
    for name, truth in tracr.PROGRAMS.items():
        yield "tracr", "compiled", Truth((truth,)), name, 0, tracr.load(name)


def measured(case: Case, half: str) -> Row:
    family, kind, truth, name, seed, model = case
    T, L = model.config.T, model.config.L
    tokens = task.sample("paper", 300, T=T, L=L, generator=seed)
    accuracy = float((model.predict(tokens) == model.truth(tokens)).float().mean())
    result = transplants(model)
    label, reached = result.label, result.shares
    if model.config.n_layers > DEEP:
        profile = depth_profile(model)
        label, reached = profile.label, profile.shares
    rc, ic = truth.shares or (None, None)
    return Row(
        half=half,
        family=family,
        kind=kind,
        truth="|".join(truth.labels),
        planted_rc=rc,
        planted_ic=ic,
        name=name,
        seed=seed,
        T=T,
        L=L,
        blocks=model.config.n_layers,
        accuracy=round(accuracy, 4),
        rc=_number(reached.rc.value),
        rc_low=_number(reached.rc.low),
        rc_high=_number(reached.rc.high),
        ic=_number(reached.ic.value),
        ic_low=_number(reached.ic.low),
        ic_high=_number(reached.ic.high),
        gated=_number(reached.gated.value),
        null=round(float(result.summary["null"] or 0), 4),
        relay=round(result.relay, 4),
        elsewhere=round(float(result.elsewhere.max()), 4),
        label=label,
        first_form="",
        old_rule="",
    )


def _number(value: float) -> float | None:
    return round(value, 4) if value == value else None


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [Row(**{name: _typed(name, text) for name, text in row.items()}) for row in csv.DictReader(file)]


def _typed(name: str, text: str) -> Any:
    kind = {field.name: str(field.type) for field in fields(Row)}[name]
    return text if kind == "str" else int(text) if kind == "int" else float(text) if text else None


def summary(rows: list[Row]) -> str:
    """For each half and family: models solved, labelled and false, and the largest error of a planted share."""
    columns = ("models", "solved", "label", "false", "first form", "old rule", "error")
    lines = [f"{'half':7}{'family':24}" + "".join(f"{name:>11}" for name in columns)]
    for half, family in dict.fromkeys((row.half, row.family) for row in rows):
        of = [row for row in rows if (row.half, row.family) == (half, family)]
        solved = [row for row in of if row.solved]
        labelled = [row for row in solved if row.label]
        errors = [error(row) for row in labelled if row.planted_rc is not None]
        asked = sum(bool(row.old_rule) for row in solved)
        cells = (
            len(of),
            len(solved),
            len(labelled),
            sum(row.false for row in of),
            sum(row.is_wrong(row.first_form) for row in solved),
            f"{sum(row.is_wrong(row.old_rule) for row in solved)} of {asked}",
            f"{max(errors):.2f}" if errors else "-",
        )
        lines.append(f"{half:7}{family:24}" + "".join(f"{cell:>11}" for cell in cells))
    for half in dict.fromkeys(row.half for row in rows):
        of = [row for row in rows if row.half == half]
        counted, false = sum(row.solved for row in of), sum(row.false for row in of)
        lines.append(f"{half} half: {len(of)} models, {counted} solved, {false} false labels")
    return "\n".join(lines)


def error(row: Row) -> float:
    """The larger error of the shares of RC and IC against the planted ones."""
    pairs = ((row.rc, row.planted_rc), (row.ic, row.planted_ic))
    return max(abs((measured or 0.0) - (planted or 0.0)) for measured, planted in pairs)


EVIDENCE = re.compile(r"(<!-- truths -->\n).*(<!-- end of truths -->)", re.S)
HEAD = ("set", "models that count", "trained", "of one mechanism", "no label", "wrong", "first form wrong")
PURE = ("RC", "IC", "gated")


def evidence(rows: list[Row]) -> str:
    """The first table of docs/verdict.md: a row for each set."""
    head = (*HEAD, "lowest own share RC, IC, gated", "planted shares within 0.1")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for half in dict.fromkeys(row.half for row in rows):
        solved = [row for row in rows if row.half == half and row.solved]
        pure = [row for row in solved if row.truth in PURE]
        own = {name: [_share(row) for row in pure if row.truth == name and row.label] for name in PURE}
        planted = [row for row in solved if row.planted_rc is not None and row.truth not in PURE and row.label]
        cells = (
            half,
            len(solved),
            sum(row.kind.startswith("trained") for row in solved),
            len(pure),
            sum(not row.label for row in pure),
            sum(row.false for row in solved),
            sum(row.is_wrong(row.first_form) for row in pure),
            ", ".join(f"{min(shares):.2f}" for shares in own.values()),
            f"{sum(error(row) <= 0.1 for row in planted)} of {len(planted)}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def tables(rows: list[Row]) -> str:
    """Both tables of docs/verdict.md."""
    caption = "Trained models of the paper's blocks in the third set, by what enforces their mechanism:"
    return f"{evidence(rows)}\n\n{caption}\n\n{paper_blocks(rows)}\n"


def _share(row: Row) -> float:
    """The share of the known mechanism; of the label's where several labels are right."""
    return {"RC": row.rc, "IC": row.ic, "gated": row.gated}[row.truth if row.truth in PURE else row.label] or 0.0


def paper_blocks(rows: list[Row]) -> str:
    """The second table of docs/verdict.md: trained models of the paper's blocks in the third set."""
    of_set = [row for row in rows if row.half == "third" and row.kind == "trained, paper's block"]
    lines = [
        "| enforced | right labels | models | that count | their labels | shares of it |",
        "|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(row.family for row in of_set):
        of_family = [row for row in of_set if row.family == family]
        solved = [row for row in of_family if row.solved]
        labels = ", ".join(f"{label or 'none'} {n}" for label, n in Counter(row.label for row in solved).items())
        shares = [_share(row) for row in solved if row.label in PURE]
        truth = of_family[0].truth.replace("|", ", ")
        spread = f"{min(shares):.2f} to {max(shares):.2f}"
        cells = (f"`{family}`", truth, len(of_family), len(solved), labels, spread)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def odds_table(rows: list[Row]) -> list[dict[str, Any]]:
    """For each label, number of blocks and band of its share: all models, and those for which the label is right."""
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    from counting_interp.probes.shares import band, depth

    for row in rows:
        if row.solved and row.label and row.truth and row.truth.count("|") < 2:  # a truth of three labels tests nothing
            share = {"RC": row.rc, "IC": row.ic, "gated": row.gated}.get(row.label)
            counts[row.label, depth(row.blocks), band(share), not row.false] += 1
    table = []
    for key in dict.fromkeys(key[:3] for key in sorted(counts)):
        right, wrong = counts[(*key, True)], counts[(*key, False)]
        named = dict(zip(("label", "blocks", "share"), key, strict=True))
        table.append({**named, "right": right, "models": right + wrong})
    return table


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="+", type=Path, help="folder of trained models and table, or tables to publish")
    parser.add_argument("--set", choices=truth_training.SETS, default="first", help="whose seeds")
    parser.add_argument(
        "--each", type=int, default=18, help="models of each family by hand; a third of each construction"
    )
    parser.add_argument(
        "--publish", action="store_true", help="join tables into the last one; write the odds and the page"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.publish:
        older = {row.key: (row.first_form, row.old_rule) for row in read(options.paths[-1])}
        measured_now = [row for path in options.paths[:-1] for row in read(path)]
        labels = [older.get(row.key, ("", "")) for row in measured_now]
        rows = [
            replace(row, first_form=first, old_rule=old) for row, (first, old) in zip(measured_now, labels, strict=True)
        ]
        write(options.paths[-1], [asdict(row) for row in rows])
        write(data.verdict_odds(), odds_table(rows))
        page = options.paths[-1].parents[1] / "verdict.md"
        page.write_text(EVIDENCE.sub(lambda match: f"{match[1]}{tables(rows)}{match[2]}", page.read_text()))
        print(summary(rows))
        return
    folder, path = options.paths
    half, first = options.set, truth_training.SETS[options.set]
    done = {row.key for row in read(path)}
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        constructed = constructions(options.each // 3 * len(CATALOGUE), first)
        outside = compiled() if half == "first" else []
        for cases in (by_hand(options.each, first), trained(folder, first), constructed, outside):
            for case in cases:
                if (half, case[0], case[1], case[3], case[4]) not in done:
                    row = measured(case, half)
                    writer.writerow(asdict(row))
                    file.flush()
                    if row.false:
                        print(
                            f"FALSE {row.family} {row.name} {row.seed}: {row.label}, not {row.truth}", file=sys.stderr
                        )
    print(summary(read(path)))


if __name__ == "__main__":
    main()
