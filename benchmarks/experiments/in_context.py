"""Counting in context: what SmolLM2, as it comes, does with labels (`dog 1, cat 1, dog 2, ... dog` -> 3).

    python -m benchmarks.experiments.in_context > docs/tables/in-context.csv

A worked example of the measure on prompts, in three steps. First the gate: does the answer grow with the copies? Below
a slope of one half there is nothing to explain, and the script stops. Then a conflict of cues in the prompt itself: the
labels of the word are shifted, so that counting copies and adding one to the last label give different answers. A
counter has slopes 1 over copies and 0 over the shift; a look-up that adds one has 1 and 1. Then transplants at the
positions behind the list, in windows of blocks 1..b.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.experiments.pretrained import L, load
from benchmarks.experiments.teaching import Lesson, answers, encode
from benchmarks.experiments.windows import Design, Measure, make_design
from counting_interp.interp.llm.result import COUNTS, Slope, clustered_slope
from counting_interp.util.tables import write_csv

LESSON = Lesson("smollm2", form="labels")
MOST, SHIFTS = 5, range(4)  # copies, and shifts of their labels: no label is above 8
WINDOWS = (12, 18, 24, 30)


@torch.no_grad()
def prompts(model: Any, design: Design, shifts: range = range(1)) -> dict[str, list[int]]:
    """Copies, shift, answer and row of every prompt with 1..MOST copies."""
    replies: dict[str, list[int]] = {"copies": [], "shift": [], "answer": [], "row": []}
    rows = len(design.words)
    for shift in shifts:
        for copies in range(1, MOST + 1):
            words = design.sequence((torch.arange(L) < copies).expand(rows, -1), 0)
            logits = model(encode(LESSON, words, design.words[:, 0], shift)).logits
            replies["answer"] += (answers(LESSON, logits)[:, -1].argmax(-1) + 1).tolist()
            replies["copies"] += [copies] * rows
            replies["shift"] += [shift] * rows
            replies["row"] += list(range(rows))
    return replies


def right(replies: dict[str, list[int]]) -> float:
    """The share of answers that say one more than there are copies."""
    return float(np.mean(np.array(replies["answer"]) == np.array(replies["copies"]) + 1))


def shift_slope(replies: dict[str, list[int]]) -> tuple[Slope, Slope]:
    """Of the answer over copies, and over the shift; prompts are balanced, so that one does not depend on the other."""
    return (
        clustered_slope(replies["copies"], replies["answer"], replies["row"]),
        clustered_slope(replies["shift"], replies["answer"], replies["row"]),
    )


def rows(model: Any, pairs: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """One row for each measurement; only the first where the gate is closed."""
    columns = ("measure", "last", "value", "low", "high", "moves_up", "moves_down", "null_up", "null_down")

    def row(measure: str, value: float, low: Any = "", high: Any = "", **rest: Any) -> dict[str, Any]:
        filled = {"measure": measure, "value": value, "low": low, "high": high, **rest}
        shown = {name: filled.get(name, "") for name in columns}
        return {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in shown.items()}

    design = make_design(pairs, 6, seed)
    plain = prompts(model, design)
    gate = clustered_slope(plain["copies"], plain["answer"], plain["row"])
    yield row("accuracy", right(plain))
    yield row("slope over copies", gate.value, gate.low, gate.high)
    if gate.value < COUNTS:
        return
    for name, slope in zip(("copies", "shift"), shift_slope(prompts(model, design, SHIFTS)), strict=True):
        yield row(f"slope over {name}, labels shifted", slope.value, slope.low, slope.high)
    for window in Measure(model, LESSON, design).windows(WINDOWS).rows():
        moved = {name: window[name] for name in columns[5:]}
        for share in ("rc", "ic", "gated"):
            ends = window[f"{share}_low"], window[f"{share}_high"]
            yield row(share, window[share], *ends, last=window["window"], **moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    torch.set_num_threads(1)
    model = load("smollm2", None, pretrained=True, labels=True)
    for number, row in enumerate(rows(model, parser.parse_args().pairs)):
        print(write_csv([row]).partition("\n")[2] if number else write_csv([row]), end="", flush=True)


if __name__ == "__main__":
    main()
