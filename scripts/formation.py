"""How a mechanism forms: verdicts along the training of many seeds of one model.

    python -m scripts.formation WORK [--seeds 30] [--model bos+sftm] [-d 45] [-p 45] [--table OUT.csv]

Trains every seed by the published recipe (T = 32, L = 10, the paper's sampler) and classifies snapshots at log-spaced
steps. It prints which share of the runs ends IC, when the verdict is settled, and whether an early snapshot predicts
the end. Every run is a checkpoint with snapshots in WORK, and its verdicts are a JSON file. So a killed script resumes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch
from scipy.stats import mannwhitneyu

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.sweep.statistics import MECHANISMS
from counting_interp.interp.verdict.files import Classified, Formation, classify_file
from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe, Run
from counting_interp.models.training.record import Recorder, reopen
from counting_interp.probes.accuracy import proportion_interval
from counting_interp.util.files import write_atomically
from counting_interp.util.tables import write_csv
from counting_interp.util.text import installed_versions, percent_range

SNAPSHOTS = 30
FIRST_SHOWN = 100  # steps; earlier snapshots hardly count
NUMBERS = ("accuracy", "rc", "ic", "gated")
Row = dict[str, Any]  # one snapshot of one run


def train_run(config: CountingConfig, recipe: Recipe, path: Path) -> None:
    """Train to the last epoch, resuming from the checkpoint if there is one."""
    run = reopen(path, config, recipe) if path.exists() else Run(config, recipe)
    if run is None:
        return
    recorder = Recorder(path, snapshots=SNAPSHOTS)
    recorder.record(run)
    while not run.finished:
        run.advance()
        recorder.record(run)


def look_at(config: CountingConfig, recipe: Recipe, path: Path) -> list[Row]:
    """Train a run and classify its snapshots, a row for each."""
    train_run(config, recipe, path)
    files = sorted(path.with_suffix(".snapshots").iterdir())
    last = len(files) - 1
    run = Formation(path, tuple(classify_file(file, quick=number < last) for number, file in enumerate(files)))
    sizes = {"model": config.name, "T": config.T, "L": config.L, "d": config.d, "p": config.p}
    budget = {"sampler": recipe.sampler, "epochs": recipe.epochs, "version": installed_versions()["counting-interp"]}
    pairs = zip(run.snapshots, run.leans, strict=True)
    return [{**sizes, **budget, "seed": config.seed, **_row(snapshot, lean)} for snapshot, lean in pairs]


def _row(snapshot: Classified, lean: str) -> Row:
    verdict = snapshot.verdict.to_row()
    numbers = {name: round(float(verdict[name] or 0), 4) for name in NUMBERS}
    return {"step": snapshot.step, "label": verdict["mechanism"], "leans": lean, **numbers}


# --- results -----------------------------------------------------------------------------------------------------


def lines(runs: Sequence[Sequence[Row]]) -> Iterator[str]:
    """The printed report: how runs end, when they settle, and what early snapshots predict."""
    ends = Counter(run[-1]["label"] for run in runs)
    for label, number in ends.most_common():
        low, high = proportion_interval(number, len(runs))
        yield f"{number} of {len(runs)} runs end {label}: {100 * number / len(runs):.0f} % ({percent_range(low, high)})"
    for name, column in (("the verdict", "label"), ("the verdict, or what an unsolved model leans to", "leans")):
        steps = sorted(settled for run in runs if (settled := settled_at(run, column)) is not None)
        if steps:
            spread = f"median {statistics.median(steps):,.0f}, from {steps[0]:,} to {steps[-1]:,}"
            yield f"{name} is settled in {len(steps)} runs at step: {spread}"
    yield ""
    yield "IC: share of pairs, one run that will end IC and one that will not, in which the first has more of it"
    heads = (
        ("step", 8),
        ("opinions", 8),
        ("as the end", 10),
        ("interval", 12),
        ("IC", 5),
        ("chance", 7),
        ("accuracy", 8),
    )
    yield "  ".join(f"{name:>{width}}" for name, width in heads)
    for step in sorted({row["step"] for run in runs for row in run}):
        yield _prediction(runs, step)


def settled_at(run: Sequence[Row], column: str) -> int | None:
    """The first step from which on `column` equals the final label; None for a run that ends unsolved."""
    if run[-1]["label"] == "unsolved":
        return None
    last = next((number for number in reversed(range(len(run))) if run[number][column] != run[-1]["label"]), -1)
    return int(run[last + 1]["step"])


def _prediction(runs: Sequence[Sequence[Row]], step: int) -> str:
    """How well the snapshots at a step predict the end, as a line of the report.

    It has the number of snapshots with a label or lean, and how often that is the final label. Then the probability
    that the IC share of a run that ends IC exceeds that of another (0.5: no information). Last the p-value of the
    two-sided Mann-Whitney test.
    """
    now = [(row, run[-1]["label"]) for run in runs for row in run if row["step"] == step]
    opinions = [(row["leans"], end) for row, end in now if row["leans"] != "-"]
    right = sum(lean == end for lean, end in opinions)
    share, interval = "-", "-"
    if opinions:
        low, high = proportion_interval(right, len(opinions))
        share, interval = f"{100 * right / len(opinions):.0f} %", percent_range(low, high)
    inventory, others = ([row["ic"] for row, end in now if (end == "IC") == wanted] for wanted in (True, False))
    above, chance = "-", "-"
    if inventory and others:
        test = mannwhitneyu(inventory, others, method="exact")
        above, chance = f"{test.statistic / (len(inventory) * len(others)):.2f}", f"{test.pvalue:.4f}"
    accuracy = statistics.fmean(row["accuracy"] for row, _ in now)
    counted = f"{step:8,}  {len(opinions):8}  {share:>10}  {interval:>12}"
    return f"{counted}  {above:>5}  {chance:>7}  {100 * accuracy:6.1f} %"


def picture(runs: Sequence[Sequence[Row]]) -> Figure:
    """The IC share of every run over its steps, coloured by the final label."""
    figure, table, shown = go.Figure(), [], set()
    for run in sorted(runs, key=lambda run: list(MECHANISMS).index(run[-1]["label"])):
        end = run[-1]["label"]
        steps, shares = ([row[name] for row in run if row["step"] >= FIRST_SHOWN] for name in ("step", "ic"))
        figure.add_scatter(
            x=steps,
            y=shares,
            mode="lines",
            line={"color": style.MECHANISMS[end].colour, "width": 1.2},
            name=f"ends {end}",
            legendgroup=end,
            showlegend=end not in shown,
        )
        shown.add(end)
        table += [
            {"seed": run[0]["seed"], "ends": end, "step": at, "ic": ic} for at, ic in zip(steps, shares, strict=True)
        ]
    style.apply(figure, style.FULL_WIDTH, 330)
    figure.update_xaxes(type="log", title="training step", tickvals=[100, 1000, 10_000, 100_000], tickformat=",")
    figure.update_yaxes(title="share of IC", range=[-0.05, 1.05])
    caption = f"Share of IC along training, {len(runs)} seeds of one model; an epoch has 313 steps."
    sizes = ", ".join(f"{name} = {runs[0][0][name]}" for name in "TLdp")
    about = f"{runs[0][0]['model']}, {sizes}; {len(runs)} seeds"
    return Figure(figure, name="formation", title="How a mechanism forms", caption=caption, table=table, about=about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--model", default="bos+sftm")
    parser.add_argument("-d", type=int, default=45)
    parser.add_argument("-p", type=int, default=45)
    parser.add_argument("--table", type=Path, help="Write all rows as CSV.")
    parser.add_argument("--picture", type=Path, help="Draw the share of IC over the steps as SVG.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    recipe = Recipe()
    runs: list[list[Row]] = []
    for seed in range(options.seeds):
        config = CountingConfig.parse(options.model, T=32, L=10, d=options.d, p=options.p, seed=seed)
        path = options.work / f"{options.model}-d{options.d}-p{options.p}-seed{seed}.pt"
        verdicts = path.with_suffix(".json")
        if not verdicts.exists():
            write_atomically(verdicts, json.dumps(look_at(config, recipe, path)).encode())
        rows = json.loads(verdicts.read_text())
        runs.append(rows)
        print(f"seed {seed}: {rows[-1]['label']}, settled at step {settled_at(rows, 'leans')}", flush=True)
    if options.table and runs:
        write_atomically(options.table, write_csv([row for run in runs for row in run]).encode())
    if options.picture and runs:
        from counting_interp.interp.pages.export import render

        images, missing = render([picture(runs)], ["svg"])
        if missing is not None:
            raise SystemExit(missing)
        options.picture.write_bytes(next(iter(images.values())))
    print("\n".join(lines(runs)))


if __name__ == "__main__":
    main()
