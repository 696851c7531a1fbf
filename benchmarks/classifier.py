"""How often is the verdict right? A confusion matrix over models whose mechanism is known, and where there are none.

    nice -n 10 python -m benchmarks.classifier out/classifier [--fresh] [--train] [--constructions 300] [--json FILE]
    nice -n 10 python -m benchmarks.classifier out/classifier --sets narrow two-layers [...]

Truth comes from constructions of random size under random symmetries, planted hybrids, models that do not count, and
trained models whose mechanism the training enforces (`benchmarks.classifier_runs`, which fills the cache; `--train`
fills it first). With `--fresh` all seeds are ones that were not looked at while the rule was made. False verdicts are
printed with their evidence. Then follow the coverage of the map (how many models of known mechanism there are for each
variant and region), the calibration of the confidence, and what is proved about the interventions on every sequence:
how many models have their label by proof, and whether a proof contradicts a verdict. `--sets` scores some sets of
trained models alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import classifier_runs
from counting_interp.data import zoo_names
from counting_interp.interp.proof.interventions import ProvedInterventions, prove_interventions
from counting_interp.interp.verdict import Verdict, classify
from counting_interp.interp.verdict.verdict import LABELS
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry

SOLVED = 0.93  # validation accuracy from which on `unsolved` is a false verdict; the rule asks for 0.9
SURE = 0.95
PAIRS, PROOF = 8, 2.0  # pairs of tokens, and seconds, for the proofs about a model


@dataclass(frozen=True)
class Case:
    """A model, what it is, and the verdicts that are right for it."""

    kind: str
    name: str
    right: tuple[str, ...]
    model: CountingTransformer


@dataclass(frozen=True)
class Scored:
    """A case, its verdict and what is proved; the model itself is not kept."""

    kind: str
    name: str
    right: tuple[str, ...]
    verdict: Verdict
    proved: ProvedInterventions | None  # nothing is proved about two layers

    @property
    def false(self) -> bool:
        return self.verdict.label not in self.right

    @property
    def label_by_proof(self) -> str | None:
        """RC or IC where the swapped place is proved to say t, or s and one, for every pair that was looked at."""
        proved = self.proved
        if proved is None:
            return None
        if proved.says_t == 1:
            return "RC"
        return "IC" if proved.says_s == 1 else None

    @property
    def contradicted(self) -> bool:
        """A proof for most pairs says the opposite of the verdict."""
        against = {"RC": ("says_s", "says_count"), "IC": ("says_t", "says_nothing")}
        return self.proved is not None and any(
            getattr(self.proved, name) > 0.5 for name in against.get(self.verdict.label, ())
        )


def constructions(n: int, seed: int) -> Iterator[Case]:
    """Every entry of the catalogue in turn, with random sizes, surplus, classes and symmetry; T and L from (4, 3) on.
    Entries whose frame is searched also come in the smallest dimension that is known for the paper's T = 32, L = 10."""
    rng = random.Random(seed)
    pure = [entry for entry in CATALOGUE.values() if entry.case != "hybrid"]
    for index in range(n):
        entry = pure[index % len(pure)]
        T = rng.choice([4, 6, 8, rng.randint(9, 24), rng.randint(9, 24), 48])
        L = rng.randint(3, min(T, 15 if T > 24 else 10, entry.longest))
        d: int | None = T + 1 + rng.randint(0, 6)
        if index < len(pure):
            T, L, d = 32, 10, None
        p = entry.smallest_p(T, L) + rng.choice([0, 0, 1, 7])
        classes = L + rng.randint(0, 1)
        model = construct(entry.name, T=T, L=L, d=d, p=p, n_classes=classes, seed=seed + index)
        name = f"{entry.name} T={T} L={L} d={model.config.d} p={p} classes={classes}"
        yield Case("construction", name, (entry.mechanism,), random_symmetry(model, seed + index, rename=True))


def hybrids(seed: int) -> Iterator[Case]:
    """Planted mixtures; from 0.3 to 0.7 neither pure verdict is right."""
    rng = random.Random(seed)
    for name in (entry.name for entry in CATALOGUE.values() if entry.case == "hybrid"):
        for weight in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7):
            for T, L in ((32, 10), (rng.randint(6, 20), rng.randint(5, 6))):
                model = construct(name, T=T, L=L, weight=weight)
                case = random_symmetry(model, rng.randint(0, 999), rename=True)
                yield Case("hybrid", f"{name} w={weight} T={T} L={L}", ("mixed",), case)


def unsolved(seed: int) -> Iterator[Case]:
    """Constant, untrained, right for small counts only, and about 60 % accurate."""
    for index, variant in enumerate(VARIANTS):
        config = CountingConfig.parse(variant, T=16, L=8, d=20, p=24, seed=seed + index)
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


def trained(folder: Path, first: int, sets: Sequence[str]) -> Iterator[Case]:
    """Runs of which the training says how they count, from the cache; frozen attention also inside dot and bos."""
    for name in sets:
        for plan, model in classifier_runs.finished(classifier_runs.SETS[name](first), folder):
            solved = model.metadata["accuracy"]["value"] >= SOLVED
            right = (str(plan.truth),) if solved else (str(plan.truth), "unsolved")
            kind = f"trained, {name}" if solved else "trained, not solved"
            yield Case(kind, plan.file, right, model)
            if plan.frozen and solved and plan.config.n_layers == 1:
                inside = classifier_runs.constant_scores(model)
                yield Case(kind, f"{inside.config.name} with {plan.file}", right, inside)


def bundled() -> Iterator[Case]:
    """The zoo's models of known mechanism."""
    for name in zoo_names():
        model = CountingTransformer.load(name)
        if model.config.mixing == "lin" or model.config.p == 1:
            yield Case("zoo", name, ("IC" if model.config.mixing == "lin" else "RC",), model)


def score(cases: Iterator[Case], scored: list[Scored]) -> None:
    """Classify, and print each false verdict with its evidence as it comes."""
    for case in cases:
        one_layer = case.model.config.n_layers == 1
        proved = prove_interventions(case.model, n_pairs=PAIRS, seconds=PROOF) if one_layer else None
        result = Scored(case.kind, case.name, case.right, classify(case.model), proved)
        scored.append(result)
        if result.false or result.contradicted:
            what = "FALSE " if result.false else "PROVED OTHERWISE "
            print(f"{what} {case.kind}: {case.name}: {result.verdict.label}, right: {' or '.join(case.right)}")
            print(f"       {proved or 'two layers: nothing is proved'}")
            print("\n".join(f"       {line}" for line in str(result.verdict).splitlines()), flush=True)


def matrix(scored: list[Scored]) -> str:
    counts = Counter((one.kind, " or ".join(one.right), one.verdict.label) for one in scored)
    lines = [f"{'kind':22}{'truth':16}" + "".join(f"{label:>10}" for label in LABELS)]
    for kind, truth in sorted({key[:2] for key in counts}):
        lines.append(f"{kind:22}{truth:16}" + "".join(f"{counts[kind, truth, label]:>10}" for label in LABELS))
    lines.append(f"{len(scored)} models, {sum(one.false for one in scored)} false verdicts")
    return "\n".join(lines)


def coverage(scored: list[Scored]) -> str:
    """For each variant and region of the map, how many solved models of known mechanism; a dash for none."""
    regions = [(size, sign) for size in "dp" for sign in ("<", "=", ">")]
    alphabets = ("T <= 8", "T <= 16", "T <= 32", "T <= 64")
    narrow, deep = "d <= T/2", "2 layers"
    counts: Counter[tuple[str, str]] = Counter()
    for one in scored:
        c = one.verdict.config
        if "unsolved" in one.right:
            continue
        for size, value in (("d", c.d), ("p", c.p)):
            counts[c.name, f"{size} {'<' if value < c.T else '=' if value == c.T else '>'} T"] += 1
        counts[c.name, next(name for name in alphabets if int(name.split()[-1]) >= c.T)] += 1
        counts[c.name, narrow] += 2 * c.d <= c.T
        counts[c.name, deep] += c.n_layers == 2
    columns = [narrow, *(f"{size} {sign} T" for size, sign in regions), *alphabets, deep]
    lines = [f"{'variant':12}" + "".join(f"{column:>10}" for column in columns)]
    for variant in VARIANTS:
        cells = (str(counts[variant, column] or "-") for column in columns)
        lines.append(f"{variant:12}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


def calibration(scored: list[Scored]) -> str:
    """Of the verdicts in each band of confidence, how many are wrong."""
    lines = []
    for low, high in ((0.0, 0.8), (0.8, SURE), (SURE, 1.01)):
        band = [one for one in scored if one.verdict.confidence is not None and low <= one.verdict.confidence < high]
        wrong = sum(one.false for one in band)
        lines.append(f"confidence {low:.0%} to {min(high, 1):.0%}: {len(band)} verdicts, {wrong} wrong")
    return "\n".join(lines)


def proofs(scored: list[Scored]) -> str:
    """How many models of each kind have their label by proof, and how many proofs contradict a verdict."""
    lines = []
    for kind in dict.fromkeys(one.kind for one in scored):
        of_kind = [one for one in scored if one.kind == kind]
        labels = Counter(one.label_by_proof for one in of_kind)
        against = sum(one.contradicted for one in of_kind)
        lines.append(
            f"{kind}: of {len(of_kind)} models {labels['RC']} RC and {labels['IC']} IC by proof; {against} contradicted"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="cache of trained models")
    parser.add_argument("--constructions", type=int, default=300)
    parser.add_argument("--train", action="store_true", help="train what the cache lacks, first")
    parser.add_argument("--fresh", action="store_true", help="seeds that the rule has never seen")
    choices = (*classifier_runs.KNOWN, *classifier_runs.LATER)
    parser.add_argument("--sets", nargs="+", choices=choices, help="these sets of trained models alone")
    parser.add_argument("--json", type=Path, help="write every verdict here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    first = classifier_runs.FRESH if options.fresh else classifier_runs.FIRST
    sets = options.sets or list(classifier_runs.KNOWN)
    if options.train:
        classifier_runs.fill(options.folder, sets, first)
    began, scored = time.perf_counter(), list[Scored]()
    asked = [trained(options.folder, first, sets)]
    if not options.sets:
        asked += [constructions(options.constructions, first), hybrids(first), unsolved(first)]
        asked += [bundled()] if first == classifier_runs.FIRST else []
    for cases in asked:
        score(cases, scored)
        print(f"{len(scored)} models after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print("\n\n".join([matrix(scored), coverage(scored), calibration(scored), proofs(scored)]))
    if options.json:
        rows = [
            {
                "kind": one.kind,
                "name": one.name,
                "right": one.right,
                **one.verdict.to_dict(),
                "proved": one.proved and one.proved.to_dict(),
            }
            for one in scored
        ]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
