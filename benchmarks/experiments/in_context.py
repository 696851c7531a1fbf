"""Counting in context: what SmolLM2, without fine-tuning, does with labels (`dog 1, cat 1, dog 2, ... dog` -> 3).

    python -m benchmarks.experiments.in_context > docs/tables/in-context.csv

A worked example of the measure on prompts, in four steps:

1. The gate: does the answer grow with the copies? Below a slope of one half there is nothing to explain, and the script
   stops.
2. A cue conflict in the prompt: the labels of the word are shifted, so that counting copies and adding one to the last
   label give different answers. A counter has slope 1 over copies and 0 over the shift. A look-up that adds one to the
   last label has slopes 1 and 1.
3. Transplants at the positions after the list, in windows of blocks 1..b. The donor prompt has d more copies (own), the
   same copies and labels higher by d (labels), or d more copies and the same last label (copies).
4. The shares of the verdict, in the same windows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.experiments.pretrained import L, load
from benchmarks.experiments.summary import cell
from benchmarks.experiments.teaching import Lesson, answers, encode
from benchmarks.experiments.windows import REPLICATES, Design, Measure, chosen, make_design
from counting_interp.interp.llm.result import COUNTS, clustered_slope
from counting_interp.util.tables import write_csv

LESSON = Lesson("smollm2", form="labels")
MOST, SHIFTS = 5, range(4)  # copies, and shifts of their labels; the largest label is 8
WINDOWS = (6, 12, 15, 18, 21, 24, 27, 30)
MOVES = ((1, 2), (2, 3), (3, 4), (1, 3), (2, 4))  # copies before and after a transplant; each is also made in reverse
BASE = 2  # shift of the labels before a transplant, so that labels can also become lower
COLUMNS = ("measure", "last", "value", "low", "high", "moves_up", "moves_down", "null_up", "null_down")


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
    """The share of answers that are one more than the number of copies."""
    return float(np.mean(np.array(replies["answer"]) == np.array(replies["copies"]) + 1))


def conflict_rows(replies: dict[str, list[int]]) -> Iterator[dict[str, Any]]:
    """Slopes of the answer over copies and over the shift, and the share of answers that fit each rule.

    The prompts are balanced, so the two slopes are independent.
    """
    for name in ("copies", "shift"):
        slope = clustered_slope(replies[name], replies["answer"], replies["row"])
        yield row(f"slope over {name}, labels shifted", slope.value, slope.low, slope.high)
    copies, shift, answer = (np.array(replies[name]) for name in ("copies", "shift", "answer"))
    said = {"last label + 1": answer == copies + shift + 1, "copies + 1": answer == copies + 1, "2": answer == 2}
    for name, holds in said.items():
        yield row(f"says {name}, several copies", float(holds[(copies > 1) & (shift > 0)].mean()))
    yield row("says 2, one copy", float(said["2"][(copies == 1) & (shift > 0)].mean()))


@torch.no_grad()
def label_transplants(measure: Measure, ends: Sequence[int]) -> dict[str, Float[Tensor, "window move pair"]]:
    """The change of the answer as a share of d, for each kind of transplant, window, move and pair."""
    pairs, most = len(measure.design.words), max(max(move) for move in MOVES)
    start, end = torch.tensor([*MOVES, *(move[::-1] for move in MOVES)]).T - 1
    step, filled = end - start, measure.filled[:most]
    farthest = int(step.abs().max())
    outputs = []  # for each shift: [block, count, pair, listening, d]
    for shift in range(BASE - farthest, BASE + farthest + 1):
        past = measure.past(filled, 0, shift)
        outputs.append(measure.record(filled, 0, 0, past, shift=shift))
        if shift == BASE:
            base = past
    values = torch.stack(outputs, 2)  # [block, count, shift, pair, listening, d]
    before = values[:, start, farthest]
    after = {
        "own": values[:, end, farthest],
        "labels": values[:, start, farthest + step],
        "copies": values[:, end, farthest - step],
    }
    tokens = measure.tokens(filled, 0, 0, BASE)[start].flatten(0, 1)
    rows = (start[:, None] * pairs + torch.arange(pairs)).flatten()
    recipient, everywhere, of_rows = before.flatten(1, 2), torch.ones_like(tokens, dtype=torch.bool), chosen(base, rows)

    def said(worth: Tensor, until: Sequence[int]) -> Tensor:
        return measure.transplant(tokens, everywhere, recipient, worth.flatten(1, 2), until, of_rows)

    plain = said(torch.zeros_like(before), [1])
    return {
        kind: (said(value - before, ends) - plain).unflatten(1, (len(start), pairs)) / step[:, None]
        for kind, value in after.items()
    }


def moved_rows(moved: dict[str, Tensor], ends: Sequence[int], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Means over moves and pairs with 95 % intervals over pairs."""
    for number, last in enumerate(ends):
        for kind, values in moved.items():
            of_pairs = values[number].mean(0)
            drawn = torch.randint(
                len(of_pairs), (REPLICATES, len(of_pairs)), generator=torch.Generator().manual_seed(seed)
            )
            low, high = of_pairs[drawn].mean(1).quantile(torch.tensor([0.025, 0.975])).tolist()
            yield row(f"{kind} moves the answer", float(of_pairs.mean()), low, high, last=last)


def row(measure: str, value: float, low: Any = "", high: Any = "", **rest: Any) -> dict[str, Any]:
    """A row of the table; cells that were not measured are empty."""
    filled = {"measure": measure, "value": value, "low": low, "high": high, **rest}
    shown = {name: filled.get(name, "") for name in COLUMNS}
    return {name: cell(value) for name, value in shown.items()}


def rows(model: Any, pairs: int, ends: Sequence[int] = WINDOWS, seed: int = 0) -> Iterator[dict[str, Any]]:
    """One row for each measurement; only accuracy and slope if the model does not pass the gate."""
    design = make_design(pairs, 6, seed)
    plain = prompts(model, design)
    gate = clustered_slope(plain["copies"], plain["answer"], plain["row"])
    yield row("accuracy", right(plain))
    yield row("slope over copies", gate.value, gate.low, gate.high)
    if gate.value < COUNTS:
        return
    yield from conflict_rows(prompts(model, design, SHIFTS))
    measure = Measure(model, LESSON, design)
    yield from moved_rows(label_transplants(measure, ends), ends)
    for window in measure.windows(ends).rows():
        moved = {name: window[name] for name in COLUMNS[5:]}
        for share in ("rc", "ic", "gated"):
            interval = window[f"{share}_low"], window[f"{share}_high"]
            yield row(share, window[share], *interval, last=window["window"], **moved)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    torch.set_num_threads(1)
    model = load("smollm2", None, pretrained=True, labels=True)
    for number, line in enumerate(rows(model, parser.parse_args().pairs)):
        print(write_csv([line]).partition("\n")[2] if number else write_csv([line]), end="", flush=True)


if __name__ == "__main__":
    main()
