"""What selects the mechanism, second lever: W_Q and W_K learn faster or slower than the rest.

    nice -n 19 python -m scripts.attention_rate WORK TABLE.csv [--seeds 20] [--factors 0.25,1,4]

trains `bos+sftm` at T = 32, L = 10, d = p = 45 from the same seeds and sequences as the sweep over `qk_scale`. Each run
is a JSON file in WORK, and the finished runs become a table. The script can be stopped at any moment and resumed.
Several processes may share WORK.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.verdict import classify
from counting_interp.models import CountingTransformer
from counting_interp.models.training import Recipe, Run
from counting_interp.util.errors import Held
from counting_interp.util.files import held, write_atomically
from counting_interp.util.tables import write_csv

CELL = SweepCell("bos+sftm", T=32, L=10, d=45, p=45, sampler="paper", epochs=200)


def train(run: Run, factor: float) -> CountingTransformer:
    """Train with every Adam step of W_Q and W_K multiplied by `factor`.

    That is a separate learning rate for them, since Adam's moments depend on gradients only.
    """
    engine, size = run.engine, run.recipe.batch_size
    scaled = [view for name, view in engine._weights._named.items() if name.endswith(("W_Q", "W_K"))]  # type: ignore[attr-defined]
    for epoch in range(run.recipe.epochs):
        fresh = engine.draw(epoch)
        for step in range(run.recipe.steps_per_epoch):
            before = [view.copy() for view in scaled]
            engine.train(engine.part(fresh, step * size, (step + 1) * size), epoch * run.recipe.steps_per_epoch + step)
            for view, old in zip(scaled, before, strict=True):
                view[...] = old + factor * (view - old)
    facts = {"task": {"sampler": run.recipe.sampler, "T": run.config.T, "L": run.config.L}}
    return CountingTransformer(run.config, engine.state_dict(), facts)


def row(seed: int, factor: float) -> dict[str, Any]:
    job = SweepJob(CELL, seed)
    model = train(Run(job.config(), Recipe(epochs=CELL.epochs, sampler=CELL.sampler)), factor)
    verdict = classify(model)
    shares = {share.name: round(share.value, 4) for share in verdict.shares}
    facts = {"model": CELL.model, "d": CELL.d, "p": CELL.p, "epochs": CELL.epochs, "factor": factor, "run": seed}
    return {**facts, "accuracy": round(verdict.accuracy, 5), "mechanism": verdict.mechanism.group, **shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--factors", default="0.25,1,4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seeds):
        for factor in map(float, options.factors.split(",")):
            line = options.work / f"{factor:g}-{seed}.json"
            if not line.exists():
                try:
                    with held(line.with_suffix("")):
                        began = time.process_time()
                        write_atomically(line, json.dumps(row(seed, factor)).encode())
                        print(line.read_text(), f"{time.process_time() - began:.0f} s", flush=True)
                except Held:
                    continue
    rows = [json.loads(line.read_text()) for line in options.work.glob("*.json")]
    rows.sort(key=lambda run: (run["factor"], run["run"]))
    names = dict.fromkeys(name for run in rows for name in run)
    write_atomically(options.table, write_csv(rows, list(names)).encode())


if __name__ == "__main__":
    main()
