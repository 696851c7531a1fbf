"""Does a certified model count correctly when it is run? Thousands of models that could expose a wrong proof are run.

    python -m benchmarks.certificates WORK [--certified 20000] [--table docs/tables/certificates.csv]

Models are constructions, small trained models and the proved models of the zoo. Each goes through random rescalings
that keep its function in real numbers (`benchmarks.rescaling`). Every model that `prove` certifies in its dtype is run:

- small models on every sequence, or on every multiset in several orders where there are many sequences;
- models of the zoo's sizes on random and two-token sequences;
- through the hooked model, with denormals and with denormals flushed, by torch's kernels for several instruction sets;
- through numpy's BLAS, with the axes in another order.

A model with a wrong answer is saved in WORK and ends the campaign. Every twentieth proof also goes through the
independent checker. Finished chunks are not repeated, and only one chunk is held in memory.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.rescaling import rescaled
from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.proof import Certificate, prove
from counting_interp.interp.proof.checker.check import check
from counting_interp.interp.proof.checker.weights import Refused
from counting_interp.interp.proof.document import proof_document
from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.training import Recipe, train

CHUNK = 4_000  # candidates
SIZES = ((4, 3), (4, 4), (5, 4), (6, 4), (8, 5))
CHOSEN = (0.35, 0.3, 0.2, 0.1, 0.05)
ALL_RUN = 2_000  # sequences; of larger models every multiset in ORDERS orders
ORDERS = 3
SAMPLES = 200  # sequences of each kind at sizes that cannot be enumerated
CAPABILITIES = ("default", "avx2", "")  # values of ATEN_CPU_CAPABILITY; empty: the machine's best
CHECKED = 20  # one proof in this many also goes through the checker
COLUMNS = ("chunk", "source", "candidates", "certified", "in_range", "runs", "wrong", "checked", "refused_by_checker")


def trained(folder: Path) -> list[CountingTransformer]:
    """Small trained models that are certified; their checkpoints are kept in `folder`."""
    models = []
    for variant, (T, L) in itertools.product(("dot", "bos", "dot+sftm", "bos+sftm", "lin", "lin+sftm"), SIZES[:3]):
        path = folder / f"{variant}-{T}-{L}.safetensors"
        if not path.exists():
            config = CountingConfig.parse(variant, T=T, L=L, d=8, p=16, seed=0)
            train(config, Recipe(epochs=60, sequences=4_000, lr=3e-3)).model().save(path)
        model = CountingTransformer.load(path)
        if isinstance(prove(model, 20), Certificate):
            models.append(model)
    return models


def candidates(chunk: int, bases: list[CountingTransformer]) -> Iterator[tuple[str, CountingTransformer]]:
    """The source of each candidate, and the model."""
    rng = np.random.default_rng([29, chunk])
    proved = [name for name in zoo_names() if name.endswith("-proved")]
    for _ in range(CHUNK):
        pick = rng.random()
        if pick < 0.005:
            yield "zoo", rescaled(CountingTransformer.load(zoo_path(str(rng.choice(proved)))), rng)
        elif pick < 0.35 and bases:
            yield "trained", rescaled(bases[rng.integers(len(bases))], rng)
        else:
            T, L = SIZES[rng.choice(len(SIZES), p=CHOSEN)]
            name = str(rng.choice(list(CATALOGUE)))
            try:
                yield "construction", rescaled(construct(name, T=T, L=L, dtype="float64"), rng)
            except ValueError:  # not at this size
                continue


def sequences(model: CountingTransformer, seed: int) -> torch.Tensor:
    """Every sequence; of larger models every multiset in some orders, or samples."""
    T, L = model.config.T, model.config.L
    rng = torch.Generator().manual_seed(seed)
    if T > 8:
        two = torch.stack([torch.randint(T, (SAMPLES, 1), generator=rng) for _ in range(2)], 2)[:, 0]
        mixed = two.gather(1, torch.randint(2, (SAMPLES, L), generator=rng))
        return torch.cat(
            [mixed, *(task.sample(name, SAMPLES, T=T, L=L, generator=rng) for name in ("paper", "uniform"))]
        )
    if T**L <= ALL_RUN or model.config.mixing == "lin":
        return torch.tensor(list(itertools.product(range(T), repeat=L)))
    bags = torch.tensor(list(itertools.combinations_with_replacement(range(T), L))).repeat(ORDERS, 1)
    return bags.gather(1, torch.rand(bags.shape, generator=rng).argsort(1))


def by_numpy(model: CountingTransformer, tokens: np.ndarray, seed: int) -> np.ndarray:
    """The model's answers through numpy's BLAS, with axes, units and positions permuted."""
    config, rng = model.config, np.random.default_rng(seed)
    w = {name.rsplit(".")[-1]: value.numpy() for name, value in model.state_dict().items()}
    axes, units, heads = rng.permutation(config.d), rng.permutation(config.p), rng.permutation(config.d)
    inside = np.concatenate([np.full((len(tokens), config.prefix), config.T), tokens], 1)
    x = w["W_E"][:, axes][inside]
    positions = np.arange(inside.shape[1]) if config.mixing == "lin" else rng.permutation(inside.shape[1])
    if config.mixing == "lin":
        scores = np.broadcast_to(w["A"], (len(x), config.L, config.L))
    else:
        q, k = x @ w["W_Q"][axes][:, heads], x[:, positions] @ w["W_K"][axes][:, heads]
        scores = q @ k.transpose(0, 2, 1) / x.dtype.type(config.d**0.5)
    if config.softmax:
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
    mixed = x + scores @ x[:, positions]
    hidden = np.maximum(mixed @ w["W_in"][axes][:, units] + w["b_in"][units], 0)
    logits = hidden @ w["W_out"][units] + w["b_out"]
    assert logits.dtype == w["W_E"].dtype
    return logits[:, -config.L :].argmax(-1) + config.first_count


def wrong_runs(models: list[CountingTransformer]) -> Iterator[tuple[int, str]]:
    """Index of each model with a wrong answer, and how it was run."""
    for index, model in enumerate(models):
        tokens = sequences(model, index)
        truth = task.histogram(tokens)
        for flushed in (False, True):
            torch.set_flush_denormal(flushed)
            if not bool((model.predict(tokens) == truth).all()):
                yield index, "flushed" if flushed else "as it is"
        torch.set_flush_denormal(False)
        with np.errstate(all="ignore"):
            if not bool((by_numpy(model, tokens.numpy(), index) == truth.numpy()).all()):
                yield index, "numpy"


def run_elsewhere(models: list[CountingTransformer], capability: str) -> list[tuple[int, str]]:
    """`wrong_runs` in a separate process, with torch's kernels for one instruction set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "models.pt"
        torch.save([(model.config.to_dict(), dict(model.state_dict())) for model in models], path)
        environment = dict(os.environ) | ({"ATEN_CPU_CAPABILITY": capability} if capability else {})
        command = [sys.executable, "-m", "benchmarks.certificates", "--run", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return [(index, f"{how} ({capability or 'best'})") for index, how in json.loads(done.stdout)]


def holds(model: CountingTransformer, proof: Certificate) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.safetensors")
        (Path(folder) / "proof.json").write_text(json.dumps(proof_document(model, proof)))
        try:
            check(Path(folder) / "proof.json", Path(folder) / "model.safetensors")
        except Refused:
            return False
    return True


def one_chunk(
    models: Iterator[tuple[str, CountingTransformer]],
    runner: Callable[[list[CountingTransformer]], list[tuple[int, str]]],
) -> tuple[dict[str, Counter], list[tuple[CountingTransformer, str]]]:
    """Prove and run one chunk.

    Returns:
        Counts by source, and the certified models with a wrong answer.
    """
    counts: dict[str, Counter] = {}
    certified: list[tuple[str, CountingTransformer]] = []
    for source, model in models:
        count = counts.setdefault(source, Counter())
        count["candidates"] += 1
        outcome = prove(model, 10, as_stored=True)
        count["in_range"] += "ordinary range" not in getattr(outcome, "reason", "")
        if not isinstance(outcome, Certificate):
            continue
        certified.append((source, model))
        count["certified"] += 1
        if len(certified) % CHECKED == 0 and source != "zoo":
            count["checked"] += 1
            count["refused_by_checker"] += not holds(model, outcome)
    wrong = [(certified[index], how) for index, how in runner([model for _, model in certified])]
    for (source, _), _ in wrong:
        counts[source]["wrong"] += 1
    return counts, [(model, how) for (_, model), how in wrong]


def everywhere(models: list[CountingTransformer]) -> list[tuple[int, str]]:
    return [wrong for capability in CAPABILITIES for wrong in run_elsewhere(models, capability)]


def read_rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open() as file:
        return [{name: value if name == "source" else int(value) for name, value in row.items()}
                for row in csv.DictReader(file)]  # fmt: skip


def totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each source, and one for all."""
    sources = sorted({row["source"] for row in rows})
    groups = [(source, [row for row in rows if row["source"] == source]) for source in sources] + [("all", rows)]
    return [
        {"source": name, **{column: sum(row[column] for row in group) for column in COLUMNS[2:]}}
        for name, group in groups
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Certified models, each of them run")
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--certified", type=int, default=20_000, help="stop when this many are certified and run")
    parser.add_argument("--table", type=Path, help="write the counts here")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.run:
        saved = torch.load(options.run, weights_only=True)
        models = [CountingTransformer(CountingConfig.from_dict(config), state) for config, state in saved]
        print(json.dumps(list(wrong_runs(models))))
        return
    if options.work is None:
        parser.error("needs WORK")
    (options.work / "trained").mkdir(parents=True, exist_ok=True)
    store = options.work / "chunks.csv"
    rows = read_rows(store)
    bases = trained(options.work / "trained")
    print(f"{len(bases)} small trained models are certified", flush=True)
    chunk = max((row["chunk"] for row in rows), default=-1) + 1
    while sum(row["certified"] for row in rows) < options.certified:
        counts, wrong = one_chunk(candidates(chunk, bases), everywhere)
        for number, (model, how) in enumerate(wrong):
            model.save(options.work / f"wrong-{chunk}-{number}.safetensors")
            print(f"WRONG: chunk {chunk}, {model.config.name}, run {how}", flush=True)
        of_chunk = [
            {"chunk": chunk, "source": source, **{name: count[name] for name in COLUMNS[2:]},
             "runs": count["certified"] * 3 * len(CAPABILITIES)}
            for source, count in counts.items()
        ]  # fmt: skip
        rows += of_chunk
        with store.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(of_chunk)
        print(f"chunk {chunk}: {totals(rows)[-1]}", flush=True)
        chunk += 1
        if wrong:
            sys.exit(1)
    if options.table:
        with options.table.open("w", newline="") as file:
            writer = csv.DictWriter(file, ("source", *COLUMNS[2:]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(totals(rows))


if __name__ == "__main__":
    main()
