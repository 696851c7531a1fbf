"""The results in one line each, computed from their tables. README and docs/results.md show the same lines.

python -m scripts.claims               # print them
python -m scripts.claims --publish     # and write them into both pages
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from counting_interp.data import runs as bundled
from counting_interp.interp.sweep.compare import compare_cells, read_reference
from counting_interp.interp.sweep.statistics import by_cell, verdict_of
from counting_interp.interp.sweep.table import read_runs
from counting_interp.models.constructions import sizes
from scripts.ladder import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTION = re.compile(r"<!-- claims -->\n.*<!-- end of claims -->", re.S)
PAGES = {ROOT / "README.md": "docs/", DOCS / "results.md": ""}  # page: folder of the docs as seen from it
RATIO = re.compile(r"^\| (?:lin|dot|bos)\S* \| \d+ \| [\d.]+ \| [\d.]+ \| (\d+) \|$", re.M)


@dataclass(frozen=True)
class Claim:
    question: str
    answer: str
    page: str
    title: str

    def line(self, folder: str) -> str:
        return f"| {self.question} | {self.answer} [{self.title}]({folder}{self.page}) |"


def table(name: str) -> list[dict[str, str]]:
    with open(DOCS / "tables" / name, newline="") as file:
        return list(csv.DictReader(file))


def claims() -> list[Claim]:
    """All claims, in the order of a reader's questions."""
    return [
        Claim("Is the verdict right?", _verdict(), "verdict.md", "verdict"),
        Claim("Does it work on other transformers?", _own_models(), "your-own-model.md", "your own model"),
        Claim("Which mechanism lives where?", _map(), "map.md", "the map"),
        Claim("Does it carry over to a transformer's block?", _ladder(), "ladder.md", "the ladder"),
        Claim("Can a trained model be proved?", _proofs(), "certificates.md", "proofs"),
        Claim("Is 100 % test accuracy enough?", _refuted(), "map.md", "the map"),
        Claim("How few dimensions suffice?", _sizes(), "constructions.md", "constructions"),
        Claim("Does Fig. 1 reproduce?", _reproduced(), "reproduction.md", "reproduction"),
        Claim("How fast is training?", _speed(), "training.md", "training"),
    ]


def _verdict() -> str:
    pure = [
        row
        for row in table("verdict-truths.csv")
        if float(row["accuracy"]) >= 0.95 and row["truth"] in ("RC", "IC", "gated") and int(row["blocks"]) <= 4
    ]
    unlabelled = sum(row["label"] == "" for row in pure)
    named = [row["label"].split(",")[0] for row in pure]  # "IC, sharpened by attention" is IC
    wrong = [row["family"] for label, row in zip(named, pure, strict=True) if label not in ("", row["truth"])]
    false = f"{len(wrong)} false labels, all of one family," if len(set(wrong)) == 1 else f"{len(wrong)} false labels"
    return (
        f"{false if wrong else 'No false label'} on {len(pure):,} models of one known mechanism, of up to four blocks; "
        f"{unlabelled} get none."
    )


def _own_models() -> str:
    rows = table("own-models.csv")
    return (
        f"{sum(bool(row['label']) for row in rows)} of {len(rows)} kinds get a label, one line of code each, unedited."
    )


def _map() -> str:
    labels: dict[str, Counter[str]] = {}
    for run in read_runs(bundled("fig1")):
        verdict = verdict_of(run)
        if verdict is not None and verdict.mechanism != "unsolved":
            labels.setdefault(run.cell.model, Counter())[verdict.mechanism.group] += 1
    softmax, (rc, gated) = labels["bos+sftm"], ((labels["dot"] + labels["bos"])[name] for name in ("RC", "gated"))
    inventories = labels["lin"] + labels["lin+sftm"] + labels["dot+sftm"]
    return (
        f"`bos+sftm`: {softmax['RC']} of {softmax.total()} solved runs RC. `lin`, `lin+sftm`, `dot+sftm`: "
        f"{inventories['IC']} of {inventories.total()} IC. `dot`, `bos`: {rc} RC, {gated} gated."
    )


def _ladder() -> str:
    with_, without, layers = (Counter[str]() for _ in range(3))
    for row in table("ladder.csv"):
        if row["mechanism"] != "unsolved":
            if row["rung"] in LAYERS:
                layers[row["mechanism"]] += 1
            elif row["bos"] == "True":
                with_[row["mechanism"]] += 1
            elif row["rung"] in ("the paper's", "values"):
                without[row["mechanism"]] += 1
    return (
        f"One layer with `$`: {with_['RC']} of {with_.total()} RC; without, one head: {without['IC']} of "
        f"{without.total()} IC. Two or four layers: {layers['RC']} of {layers.total()} RC."
    )


def _proofs() -> str:
    (row,) = (row for row in table("certificates.csv") if row["source"] == "all")
    return (
        f"Yes, on all 32^10 sequences, in float32. Of {int(row['certified']):,} certified models {row['wrong']} were "
        f"wrong in {int(row['runs']):,} runs."
    )


def _refuted() -> str:
    perfect = [run for run in read_runs(bundled("fig1")) if run.final == 100.0 and run.measured.get("proof_proof")]
    refuted = sum(run.measured["proof_proof"] == "refuted" for run in perfect)
    return f"No: {refuted} of {len(perfect)} such runs have a sequence they get wrong."


def _sizes() -> str:
    smallest = min(sizes(32, 10), key=lambda row: (row["d"], row["p"]))
    return f"d = {smallest['d']} with {smallest['p']} hidden unit (paper: 8)."


def _reproduced() -> str:
    cells = compare_cells(by_cell(read_runs(bundled("fig1"))), read_reference()).summary()["all"]
    return f"{cells['within']:,} of {cells['cells']:,} cells are within tolerance."


def _speed() -> str:
    ratios = [int(ratio) for ratio in RATIO.findall((DOCS / "training.md").read_text(encoding="utf-8"))]
    return f"{min(ratios)} to {max(ratios)} times the published code, on one core."


def lines(answered: Sequence[Claim], folder: str) -> str:
    return "\n".join(["| question | answer |", "|---|---|", *(claim.line(folder) for claim in answered)])


def main(publish: bool) -> None:
    answered = claims()
    print(lines(answered, "docs/"))
    for page, folder in PAGES.items() if publish else ():
        before, after = SECTION.split(page.read_text(encoding="utf-8"))
        text = f"<!-- claims -->\n{lines(answered, folder)}\n<!-- end of claims -->"
        page.write_text(before + text + after, encoding="utf-8")


if __name__ == "__main__":
    main("--publish" in sys.argv[1:])
