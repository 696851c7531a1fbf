"""Hostile fine-tuning against the transplants themselves: can a model be trained to look like another mechanism?

    nice -n 10 python -m benchmarks.hostile out/truths out/hostile.csv [--deep]

Starts from trained models of known mechanism. Each step adds to the task's loss a differentiable version of the
transplants, with expected counts instead of answers. What enforces the mechanism stays fixed (zero queries, the
comparison by hand). There are three attacks:

- `direct` makes the deciding block look like the goal.
- `hidden` makes own copies move nothing in the first block, so another block decides, and makes that one look like the
  goal.
- `windows`, for models of six blocks, attacks the windows of `depth_profile`. Short windows should move nothing, and
  longer ones look like the goal. With the comparison frozen, nothing of the count should survive.
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
from counting_interp.probes.depth_profile import asking, depth_profile, queries_of_bystanders, set_windows
from counting_interp.probes.designs import transplant_design
from counting_interp.probes.transplants import transplants
from counting_interp.probes.worths import T_TOKEN, record_worths, transplanted

ATTACKS = (  # mixers, goal, attack
    (("uniform",), "RC", "direct"),
    (("uniform", "uniform"), "RC", "direct"),
    (("uniform", "uniform"), "RC", "hidden"),
    (("gated",), "RC", "direct"),
    (("gated", "uniform"), "RC", "hidden"),
    (("relation",), "gated", "direct"),
    (("relation", "uniform"), "gated", "hidden"),
)
DEEP = (
    (("uniform", "peers") * 3, "RC", "windows"),
    (("near", "near", "gated", "peers", "near", "peers"), "RC", "windows"),
    (("near", "near", "uniform", "peers", "near", "peers"), "RC", "windows"),
    (("uniform",) * 6, "RC", "windows"),
    (("relation", *["near"] * 5), "gated", "windows"),
)


def attack(model: Any, goal: str, way: str, *, steps: int, seed: int, lr: float = 2e-3, pressure: float = 1.0) -> None:
    """Fine-tune `model` in place."""
    config, rng = model.config, torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam([w for w in model.parameters() if w.requires_grad], lr=lr)
    for step in range(steps):
        tokens = task.sample("paper", 64, T=config.T, L=config.L, generator=rng)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), model.truth(tokens).flatten() - 1)
        loss = loss + pressure * looks(model, goal, way, seed=seed + step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def looks(model: Any, goal: str, way: str, *, seed: int) -> Tensor:
    """The attack's loss: how far the transplants are from those of the goal, by expected counts."""
    if way == "windows":
        return looks_deep(model, goal, seed=seed)
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
        inventories = away[3::2]  # of a bystander, and by queries
        total = total + relation + (1 - inventories).relu().sum()
    return total


def looks_deep(model: Any, goal: str, *, seed: int) -> Tensor:
    """The loss of `windows`, with one short and one long window that depend on the seed of the step."""
    design = transplant_design(model.config, n_pairs=6, seed=seed)
    natural, worths = record_worths(model, design, forgetful=False)
    step = (design.moves[:, 1] - design.moves[:, 0]).abs().sum() * len(design.tokens)
    counts, n = torch.arange(1.0, model.config.L + 1), len(worths)
    mixers = [block.mixer for block in model.blocks]
    first = mixers.index("peers") if "peers" in mixers else 1  # longer windows may take a look-up for a match
    short, long = seed % first, first + seed % (n - first)
    missed = []
    for window in (short, long):
        said = set_windows(model, design, worths[: window + 1]).softmax(-1) @ counts
        missed.append((said - said[1]).abs().sum((1, 2)))
    away = missed[1] / missed[1][0].clamp_min(0.2 * step)
    looks_so = away[2] if goal == "RC" else (1 - away[2]).relu()
    total = looks_so + (1 - away[3]).relu() + (missed[0][0] / step - 0.1).relu() * 4
    if goal != "RC":
        return total
    left, _ = asking(model, design, queries_of_bystanders(model, design, T_TOKEN), n)
    lost, whole = ((x.softmax(-1) - natural[:1].softmax(-1)) @ counts for x in (left, natural))
    return total + lost.abs().sum() / whole.abs().sum().clamp_min(1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="of the trained truths")
    parser.add_argument("table", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pressure", type=float, default=1.0, help="weight of the attack beside the task's loss")
    parser.add_argument("--deep", action="store_true", help="attack the profile over depth of models of six blocks")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.table.open("a", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        for mixers, goal, way in DEEP if options.deep else ATTACKS:
            stack = next(s for s in truth_training.stacks() if s.sizes.get("mixers") == mixers)
            runs = truth_training.trained(stack, options.folder, truth_training.SETS["first"])
            for seed, model in runs[: options.seeds]:
                attack(model, goal, way, steps=options.steps, seed=seed, pressure=options.pressure)
                result = depth_profile(model) if options.deep else transplants(model)
                shares = [f"{e.value:.3f}" for e in (result.shares.rc, result.shares.ic, result.shares.gated)]
                moves = result.agreements[..., 0].amax(-1).tolist()
                moved = " ".join(f"{x:.2f}" for x in moves)
                about = ("as now", "-".join(mixers), stack.truth, goal, way, seed, options.steps)
                row = (*about, f"{model.accuracy():.3f}", *shares, result.label, moved)
                table.writerow(row)
                file.flush()
                print(row, result.reason, result.rows() if options.deep else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
