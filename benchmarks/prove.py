"""How many models of the zoo or the catalogue does `prove` decide, and how fast, on one core?

    python -m benchmarks.prove --time 60

Prints a line for each model and how many were decided. Seconds are processor time of this process, so other work on the
machine matters little. Compilation (once per installation) is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.proof import Counterexample, prove
from counting_interp.interp.proof.cells import compile_kernels
from counting_interp.interp.proof.outcome import saw_every_count
from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import CATALOGUE, construct


def zoo_models() -> Iterator[tuple[str, Callable[[], CountingTransformer], bool]]:
    """Name, loader, and whether count L is left out. Models that never saw count L in training come twice."""
    for name in zoo_names():
        load = partial(CountingTransformer.load, zoo_path(name))
        yield name, load, False
        if not saw_every_count(load()):
            yield name, load, True


def constructions() -> Iterator[tuple[str, Callable[[], CountingTransformer], bool]]:
    for name in CATALOGUE:
        yield name, partial(construct, name), False


def main() -> None:
    parser = argparse.ArgumentParser(description="Share of models decided, and how fast")
    parser.add_argument("--time", type=float, default=60.0, help="seconds for each model")
    parser.add_argument("--constructions", action="store_true", help="the catalogue instead of the zoo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    compile_kernels()
    print(f"{'model':<28}{'counts':>7}{'verdict':>11}{'seconds':>9}{'cells':>7}{'right':>7}{'wrong':>7}  margin")
    decided, total, slowest = 0, 0, 0.0
    for name, get, without_last in constructions() if options.constructions else zoo_models():
        model = get()
        start = time.process_time()
        outcome = prove(model, options.time, max_count=model.config.L - without_last)
        seconds = time.process_time() - start
        wrong = outcome.wrong_cells if isinstance(outcome, Counterexample) else 0
        margin = "none" if outcome.margin is None else f"{outcome.margin:.4g}"
        print(
            f"{name:<28}{f'1..{outcome.counts}':>7}{outcome.verdict:>11}{seconds:>9.2f}"
            f"{outcome.cells:>7}{outcome.proved_cells:>7}{wrong:>7}  {margin}",
            flush=True,
        )
        total, decided, slowest = total + 1, decided + (outcome.verdict != "undecided"), max(slowest, seconds)
    print(f"{decided} of {total} decided; slowest {slowest:.1f} s")


if __name__ == "__main__":
    main()
