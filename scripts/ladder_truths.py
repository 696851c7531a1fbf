"""Is the verdict right on every rung of the ladder? Models of enforced mechanism are trained on each and classified.

    nice -n 19 python -m scripts.ladder_truths out/ladder [--publish docs]

- IC: the queries are zero and stay zero, so no attention weight depends on the query.
- RC: hand-set attention gives weight to equal tokens and `$`, and hardly any to others. Values read one coordinate that
  all tokens share, so every match writes the same vector. On rungs without values the MLP reads only that coordinate.
- gated: the same, but the coordinates that are read hold an angle that differs from token to token.

In RC and gated models embeddings, queries, keys and the first norm are fixed; values, positions and MLP are learned.
The last rungs have the mixers of `benchmarks.standard`; layers after the first see a position and the one before it,
or, for IC, all positions with zero queries. Every run is one JSON line; finished runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.standard import StandardCounter
from benchmarks.truth_training import Tie, train
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.util.files import write_atomically
from counting_interp.util.tables import cell_value, read_csv, write_csv
from scripts.ladder import LAYERS, RUNGS, STANDARD, VARIANTS, Judged, judged

T, L, D, P = 16, 6, 32, 64
SEEDS = (0, 1)
STEPS, LR = 2500, 5e-3
MATCH = 8.0  # score of equal tokens and of `$`; other scores are at most a seventh of it
SHARED, START, ANGLE, FREE = 14, 15, slice(16, 18), 20  # coordinates after the token's name and its negative
TABLE = Path("tables", "ladder-truths.csv")


@dataclass(frozen=True)
class Truth:
    """A mechanism that is enforced on a rung, with or without `$`."""

    rung: str
    truth: str
    bos: bool


@dataclass(frozen=True)
class LadderTruth(Judged, Truth):
    """One model of known mechanism and its verdict."""


def truths() -> Iterator[tuple[str, str, bool]]:
    """(rung, mechanism, with `$`). The rung of weight decay is left out: it changes the training, not the block."""
    for rung in RUNGS:
        if rung != "weight decay":
            yield from ((rung, "IC", False), (rung, "IC", True), (rung, "RC", True), (rung, "gated", True))


def build(rung: str, truth: str, bos: bool, seed: int) -> CountingTransformer | StandardCounter:
    sizes: dict[str, Any] = {"T": T, "L": L, "d": D, "p": P, "seed": seed}
    if rung in STANDARD:
        later = "uniform" if truth == "IC" else "near"
        mixers = ({"IC": "uniform", "RC": "relation", "gated": "gated"}[truth], *[later] * (LAYERS.get(rung, 1) - 1))
        options = {"n_heads": 4, "positions": True, "causal": True, **STANDARD[rung]}
        return StandardCounter(**sizes, bos=bos, mixers=mixers, **options)
    config = CountingConfig.parse(VARIANTS[bos] + RUNGS[rung], **sizes)
    return CountingTransformer(config, metadata={"training": {"sampler": "paper"}})


def tie_of(rung: str, truth: str) -> Tie:
    """The map from trained weights to the weights of the model, which enforces the mechanism."""
    if rung in STANDARD:
        return dict
    if truth == "IC":
        return lambda weights: {key: 0 * w if key.endswith("W_Q") else w for key, w in weights.items()}
    seen = torch.zeros(D)
    seen[SHARED if truth == "RC" else ANGLE] = 1
    fixed = by_hand(D // 4 if "heads" in RUNGS[rung] else D, "norm" in RUNGS[rung])

    def tie(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        reader = "W_V" if "values" in RUNGS[rung] else "W_in"
        tied = dict(weights)
        for key, w in weights.items():
            name = key.rpartition(".")[2]
            if name in fixed:
                tied[key] = torch.nn.functional.pad(fixed[name], (0, w.shape[-1] - fixed[name].shape[-1])).expand_as(w)
            elif name == reader:
                tied[key] = w * seen[:, None]
            elif name == "W_pos":
                tied[key] = w * (torch.arange(D) >= FREE)
            elif ".ln1." in key:
                tied[key] = torch.full_like(w, float(name == "w"))
        return tied

    return tie


def by_hand(d_head: int, norm: bool) -> dict[str, Tensor]:
    """W_E, W_Q and W_K such that equal tokens and `$` score MATCH, in a block with or without a norm.

    Every token has the same mean and length, so a norm changes all of them in the same way.
    """
    rows = torch.ones(1, 1)
    for _ in range(3):
        rows = torch.cat([torch.cat([rows, rows], 1), torch.cat([rows, -rows], 1)])
    names = torch.cat([rows[:, 1:], -rows[:, 1:]])  # sixteen names of seven signs; two differ in three or more
    turn = 2 * math.pi * torch.arange(T) / T
    E = torch.zeros(T + 1, D)
    E[:T, :14] = torch.cat([names, -names], 1)
    E[:T, SHARED], E[T, START] = 1, 1
    E[:T, 16:20] = torch.stack([turn.cos(), turn.sin(), -turn.cos(), -turn.sin()], 1)
    read = torch.nn.functional.layer_norm(E, (D,)) if norm else E
    W_Q, W_K = torch.zeros(2, D, d_head)
    W_Q[:7, :7] = W_K[:7, :7] = (
        torch.eye(7) * math.sqrt(MATCH * math.sqrt(d_head) / 7) / float(read[0, :7].abs().mean())
    )
    W_Q[SHARED, 7] = W_K[START, 7] = math.sqrt(MATCH * math.sqrt(d_head) / float(read[0, SHARED] * read[T, START]))
    return {"W_E": E, "W_Q": W_Q, "W_K": W_K}


def work(folder: Path) -> None:
    for rung, truth, bos in truths():
        lines = [line(folder, rung, truth, bos, seed) for seed in SEEDS]
        if all(path.exists() for path in lines):
            continue
        began = time.process_time()
        models = [build(rung, truth, bos, seed) for seed in SEEDS]
        train(models, tie_of(rung, truth), steps=STEPS, lr=LR, seed=SEEDS[0])
        for seed, model, path in zip(SEEDS, models, lines, strict=True):
            row = LadderTruth(rung=rung, truth=truth, bos=bos, **judged(model, seed))
            write_atomically(path, (json.dumps(asdict(row)) + "\n").encode())
            print(row, f"{time.process_time() - began:.0f} s", file=sys.stderr, flush=True)


def line(folder: Path, rung: str, truth: str, bos: bool, seed: int) -> Path:
    name = f"truth_{list(RUNGS).index(rung)}-{rung}_{truth}_{VARIANTS[bos]}_s{seed}"
    return folder / f"{name.replace(' ', '-').replace(chr(39), '')}.json"


def finished(folder: Path) -> list[LadderTruth]:
    paths = [line(folder, *truth, seed) for truth in truths() for seed in SEEDS]
    return [LadderTruth(**json.loads(path.read_text())) for path in paths if path.exists()]


def read_table(docs: Path) -> list[LadderTruth]:
    kinds = {field.name: str(field.type) for field in fields(LadderTruth)}
    return read_csv(
        docs / TABLE, kinds, lambda row: LadderTruth(**{key: cell_value(key, kinds[key], row[key]) for key in kinds})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="of JSON lines")
    parser.add_argument("--publish", type=Path, metavar="DOCS", help="train nothing; write tables/ladder-truths.csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.publish is None:
        work(options.folder)
    else:
        (options.publish / TABLE).write_text(write_csv(asdict(row) for row in finished(options.folder)))


if __name__ == "__main__":
    main()
