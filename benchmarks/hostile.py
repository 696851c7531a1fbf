"""Hostile fine-tuning against the transplants themselves: can a model be trained to look like another mechanism?

    nice -n 10 python -m benchmarks.hostile out/truths out/hostile.csv

Starts from trained truths. Each step adds to the task's loss what the transplants would say, with expected counts in
place of answers, so that it has a gradient. What makes the truth stays fixed (zero queries, the comparison by hand).
`direct` makes the deciding block look like the goal. `hidden` makes the first block's own copies move nothing, so that
another block decides, and that one look like the goal.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import truth_training
from counting_interp.models import task
from counting_interp.probes.transplant_design import transplant_design
from counting_interp.probes.transplants import transplants
from counting_interp.probes.worths import record_worths, transplanted

PRESSURE = 1.0
ATTACKS = (  # mixers, goal, way
    (("uniform",), "RC", "direct"),
    (("uniform", "uniform"), "RC", "direct"),
    (("uniform", "uniform"), "RC", "hidden"),
    (("gated",), "RC", "direct"),
    (("gated", "uniform"), "RC", "hidden"),
    (("relation",), "gated", "direct"),
    (("relation", "uniform"), "gated", "hidden"),
)


def attack(model: Any, goal: str, way: str, *, steps: int, seed: int, lr: float = 2e-3) -> None:
    """Fine-tune `model` in place."""
    config, rng = model.config, torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam([w for w in model.parameters() if w.requires_grad], lr=lr)
    for step in range(steps):
        tokens = task.sample("paper", 64, T=config.T, L=config.L, generator=rng)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), model.truth(tokens).flatten() - 1)
        loss = loss + PRESSURE * looks(model, goal, way, seed=seed + step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def looks(model: Any, goal: str, way: str, *, seed: int) -> Tensor:
    """How far the model is from looking like the goal, by expected counts."""
    design = transplant_design(model.config, n_pairs=6, seed=seed)
    _, worths = record_worths(model, design)
    step = (design.moves[:, 1] - design.moves[:, 0]).abs().sum() * len(design.tokens)
    counts = torch.arange(1.0, model.config.L + 1)
    blocks = range(len(worths)) if way == "hidden" else range(1)
    total = torch.zeros(())
    for block in blocks:
        said = transplanted(model, design, block, worths[block]).softmax(-1) @ counts
        missed = (said - said[1]).abs().sum((1, 2))
        if way == "hidden" and block == 0:
            total = total + (missed[0] / step - 0.05).relu() * 4
            continue
        away = missed / missed[0].clamp_min(0.2 * step)
        relation = away[2] if goal == "RC" else (1 - away[2]).relu()
        total = total + relation + (1 - away[3]).relu()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="of the trained truths")
    parser.add_argument("table", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.table.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ("mixers", "truth", "goal", "way", "seed", "accuracy", "rc", "ic", "gated", "label", "reason", "moved")
        )
        for mixers, goal, way in ATTACKS:
            stack = next(s for s in truth_training.stacks() if s.sizes.get("mixers") == mixers)
            for seed, model in truth_training.trained(stack, options.folder, truth_training.SETS["first"])[
                : options.seeds
            ]:
                attack(model, goal, way, steps=options.steps, seed=seed)
                result = transplants(model)
                found = result.shares
                shares = [f"{e.value:.3f}" for e in (found.rc, found.ic, found.gated)]
                moved = " ".join(f"{x:.2f}" for x in result.moved.tolist())
                row = (
                    "-".join(mixers),
                    stack.truth,
                    goal,
                    way,
                    seed,
                    f"{model.accuracy():.3f}",
                    *shares,
                    result.label,
                    result.reason,
                    moved,
                )
                table.writerow(row)
                file.flush()
                print(row, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
