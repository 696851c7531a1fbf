"""The trained models behind the verdict: runs whose mechanism the training enforces, and runs that are asked about.

Runs are cached as checkpoints in a folder and resumed after the last finished one:

    nice -n 10 python -m benchmarks.classifier_runs out/classifier [--fresh] [single frozen relation ...]

A run stops as soon as its validation accuracy says that it is solved, after half of its epochs if it is below
`HOPELESS` by then, or after all of them. Its seeds are `FIRST` and up: the set of which a part was in view when the
thresholds were set. With `--fresh` they are `FRESH` and up: runs that were made after the rule had been fixed.

Truth by training:

- one hidden unit cannot know which token it counts: RC. Plain training seldom finds it, so most of these runs start
  from a construction whose weights have been shaken until it counts no better than by chance;
- `lin` and `lin+sftm` have a constant attention: IC;
- **frozen attention**: with W_Q = W_K = 0 every score is zero, and so are the gradients of W_Q and W_K, so plain
  training keeps the attention of dot+sftm and bos+sftm uniform for ever: IC inside a variant that could compare.
  Without softmax, zero scores would mix nothing; `constant_scores` puts the same embeddings and feed-forward layer into
  dot and bos, with one more coordinate that all tokens share and by which alone they are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.training import Recipe, Run

COMPARING = ("dot", "bos", "bos+sftm")
HOPELESS = 0.8
SHAKE = 0.1  # standard deviation of the noise on a construction's weights, relative to each parameter's own size
FIRST, FRESH = 2000, 7000  # first seeds of the two sets
ALPHABETS = ((4, 3), (6, 4), (8, 4), (8, 6), (12, 6), (16, 8), (24, 8), (32, 10), (48, 12), (64, 15))  # T, L
LENGTHS = {8: 4, 16: 8, 32: 10, 64: 10}  # L for each T


@dataclass(frozen=True)
class Plan:
    """One run: `truth` is the only mechanism that its architecture or its training allows, None where it is open."""

    config: CountingConfig
    epochs: int
    enough: float
    truth: str | None = None
    frozen: bool = False
    start: str | None = None  # the construction whose shaken weights it starts from

    @property
    def file(self) -> str:
        c = self.config
        name = f"{c.name}_T{c.T}_L{c.L}_d{c.d}_p{c.p}_s{c.seed}" + (f"_layers{c.n_layers}" if c.n_layers > 1 else "")
        return name + ("_frozen" if self.frozen else f"_{self.start}" if self.start else "") + ".safetensors"


def single(first: int) -> Iterator[Plan]:
    """One hidden unit, from the smallest alphabets on: only RC."""
    for T, L in ALPHABETS:
        yield from _seeds(first, "bos+sftm", T, L, T + T // 4, 1, 3, epochs=100, enough=0.9999, truth="RC")
    yield from _seeds(first, "bos+sftm", 8, 4, 8, 1, 4, epochs=60, enough=1.1, truth="RC")


def single_warm(first: int) -> Iterator[Plan]:
    """One hidden unit, from a shaken construction on, in the smallest known dimension (below T for some): only RC."""
    for name in ("rc-dot", "rc-bos", "rc-bos+sftm", "rc-dot-compact", "rc-bos-compact"):
        entry = CATALOGUE[name]
        for T, L in ALPHABETS:
            yield from _seeds(
                first,
                entry.variant,
                T,
                L,
                entry.smallest_d(T, L),
                1,
                1,
                epochs=100,
                enough=0.98,
                truth="RC",
                start=name,
            )


def lin_below(first: int) -> Iterator[Plan]:
    """An attention that cannot compare, d < T, from a shaken construction on: only IC."""
    for name in ("ic-lin-compact", "ic-lin+sftm-compact", "ic-dot+sftm-compact"):
        entry = CATALOGUE[name]
        for T, L in ALPHABETS[2:-2]:
            d = entry.smallest_d(T, L)
            yield from _seeds(first, entry.variant, T, L, d, 2 * T, 1, epochs=100, enough=0.98, truth="IC", start=name)


def narrow(first: int) -> Iterator[Plan]:
    """d <= T/2: one hidden unit, from a shaken construction on, only RC; and a constant attention, only IC, which takes
    short sequences and many units there (few tokens in a mixture can be told apart in fewer dimensions than tokens)."""
    for name in ("rc-bos+sftm-sign", "rc-bos+sftm-circle"):
        entry = CATALOGUE[name]
        for T, L in ALPHABETS[4:]:
            d = entry.smallest_d(T, L)
            yield from _seeds(first, entry.variant, T, L, d, 1, 3, epochs=200, enough=0.98, truth="RC", start=name)
    for T, L, d in ((8, 3, 4), (12, 3, 6), (16, 3, 4), (16, 4, 8), (24, 5, 12), (32, 3, 8), (32, 4, 16), (32, 5, 16)):
        for variant in ("dot+sftm", "bos+sftm"):
            yield from _seeds(first, variant, T, L, d, 16 * T, 2, epochs=200, enough=0.96, truth="IC", frozen=True)


def two_layers(first: int) -> Iterator[Plan]:
    """Two blocks: a constant attention in both, by architecture or frozen, only IC; one unit in each, only RC."""
    sizes = ((8, 4, 12, 16), (12, 6, 24, 24), (16, 8, 32, 48), (32, 10, 64, 64))
    for variant in ("lin", "lin+sftm", "dot+sftm", "bos+sftm"):
        fixed = {"frozen": not variant.startswith("lin"), "n_layers": 2}
        for T, L, d, p in (*sizes, (8, 3, 4, 64), (16, 4, 8, 128)):
            yield from _seeds(first, variant, T, L, d, p, 2, epochs=200, enough=0.98, truth="IC", **fixed)
    for variant in COMPARING:
        for T, L in ALPHABETS[:4]:
            yield from _seeds(first, variant, T, L, T + T // 2, 1, 16, epochs=100, enough=0.98, truth="RC", n_layers=2)


def few(first: int) -> Iterator[Plan]:
    """Two or three hidden units for eight tokens."""
    for variant in COMPARING:
        for p in (2, 3):
            yield from _seeds(first, variant, 8, 4, 8, p, 6, epochs=60, enough=0.9999)


def relation(first: int) -> Iterator[Plan]:
    """An attention that can compare, d > T, and too few hidden units for an inventory: RC, as the paper argues."""
    for T, L, d, p, seeds in (
        (16, 8, 24, 4, 4),
        (15, 5, 24, 3, 3),
        (24, 6, 32, 4, 7),
        (32, 10, 45, 4, 2),
        (20, 5, 28, 4, 4),
    ):
        for variant in COMPARING:
            yield from _seeds(first, variant, T, L, d, p, seeds, epochs=120, enough=0.97, truth="RC")


def inventory(first: int) -> Iterator[Plan]:
    """An attention that cannot compare, or (dot+sftm) whose shares cannot carry the comparison: IC."""
    for T, L, d, p, seeds in (
        (15, 5, 32, 32, 4),
        (16, 8, 32, 48, 3),
        (12, 6, 24, 24, 3),
        (32, 10, 64, 64, 2),
        (10, 4, 20, 24, 3),
    ):
        for variant in ("lin", "lin+sftm", "dot+sftm"):
            yield from _seeds(first, variant, T, L, d, p, seeds, epochs=80, enough=0.98, truth="IC")


def frozen(first: int) -> Iterator[Plan]:
    """An attention that could compare, frozen to a constant: only IC."""
    for T, L in LENGTHS.items():
        for d in (T // 2, T, 3 * T // 2):
            for p in (T, 2 * T):
                for variant in ("dot+sftm", "bos+sftm"):
                    yield from _seeds(first, variant, T, L, d, p, 2, epochs=120, enough=0.98, truth="IC", frozen=True)
        for variant in ("dot+sftm", "bos+sftm"):  # with fewer dimensions than tokens it takes more units and more time
            yield from _seeds(
                first, variant, T, L, 7 * T // 8, 4 * T, 3, epochs=400, enough=0.96, truth="IC", frozen=True
            )


def below(first: int) -> Iterator[Plan]:
    """d < T: an attention that can compare, and embeddings that are not independent. Seeds outermost, so that the
    table is balanced at any time."""
    for seed in range(first, first + 5):
        for T in (16, 32, 64):
            for d in (T // 4, T // 2, 3 * T // 4):
                for p in (T // 2, T, 2 * T):
                    for variant in COMPARING:
                        config = CountingConfig.parse(variant, T=T, L=LENGTHS[T], d=d, p=p, seed=seed)
                        yield Plan(config, epochs=200 if T < 64 else 150, enough=0.99)


def left_open(first: int) -> Iterator[Plan]:
    """An attention that can compare and units enough for an inventory: T = 32, L = 10, d = p."""
    for size, seeds in ((32, 5), (64, 5), (45, 5), (128, 3)):
        for variant in COMPARING:
            yield from _seeds(first, variant, 32, 10, size, size, seeds, epochs=80, enough=0.99)


SETS: dict[str, Callable[[int], Iterator[Plan]]] = {
    "single": single,
    "single-warm": single_warm,
    "lin-below": lin_below,
    "narrow": narrow,
    "two-layers": two_layers,
    "few": few,
    "relation": relation,
    "inventory": inventory,
    "frozen": frozen,
    "below": below,
    "open": left_open,
}

KNOWN = (
    "single",
    "single-warm",
    "lin-below",
    "frozen",
    "relation",
    "inventory",
)  # sets whose mechanism the training or the architecture settles
LATER = ("narrow", "two-layers")  # others of that kind, made when the first had been published


def _seeds(
    first: int, variant: str, T: int, L: int, d: int, p: int, n: int, *, n_layers: int = 1, **rest: Any
) -> Iterator[Plan]:
    for seed in range(first, first + n):
        yield Plan(CountingConfig.parse(variant, T=T, L=L, d=d, p=p, n_layers=n_layers, seed=seed), **rest)


def trained(plan: Plan, folder: Path) -> CountingTransformer:
    """The run's final model, from the cache or trained now."""
    path = folder / plan.file
    if not path.exists():
        model = _train(plan)
        folder.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return CountingTransformer.load(path)


def finished(plans: Iterator[Plan], folder: Path) -> Iterator[tuple[Plan, CountingTransformer]]:
    """The runs that are in the cache."""
    for plan in plans:
        if (folder / plan.file).exists():
            yield plan, trained(plan, folder)


def constant_scores(model: CountingTransformer) -> CountingTransformer:
    """A model with uniform attention as a dot or bos model with the same function: every token scores 1 / (number of
    places) with every token, by a coordinate that all of them share and that no hidden unit reads."""
    c = model.config
    config = CountingConfig.parse(c.mixing, T=c.T, L=c.L, d=c.d + 1, p=c.p, seed=c.seed)
    weights = {name: torch.zeros_like(value) for name, value in CountingTransformer(config).state_dict().items()}
    for name, value in model.state_dict().items():
        if name == "embed.W_E":
            weights[name] = torch.cat([value, torch.ones(len(value), 1)], 1)
        elif name == "blocks.0.mlp.W_in":
            weights[name] = torch.cat([value, torch.zeros(1, c.p)])
        elif "mlp" in name:
            weights[name] = value
    weights["blocks.0.attn.W_Q"][-1, 0] = config.d**0.5 / config.n_positions
    weights["blocks.0.attn.W_K"][-1, 0] = 1.0
    return CountingTransformer(config, weights, model.metadata)


def _train(plan: Plan) -> CountingTransformer:
    recipe = Recipe(epochs=plan.epochs)
    weights = CountingTransformer(plan.config).state_dict()
    if plan.start:
        weights = _shaken(plan)
    if plan.frozen:
        weights |= {name: torch.zeros_like(value) for name, value in weights.items() if ".attn." in name}
    run = Run(plan.config, recipe, weights)
    run.advance()
    while not run.finished and run.accuracies[-1] < plan.enough:
        if run.epoch == plan.epochs // 2 and run.accuracies[-1] < HOPELESS:
            break
        run.advance()
    model = run.model()
    model.metadata |= {"training": {**recipe.to_dict(), "epochs": run.epoch}}
    return model


def _shaken(plan: Plan) -> dict[str, torch.Tensor]:
    c, noise = plan.config, torch.Generator().manual_seed(plan.config.seed)
    exact = construct(str(plan.start), T=c.T, L=c.L, d=c.d, p=c.p, n_classes=c.n_classes).state_dict()
    return {
        name: value + SHAKE * value.square().mean().sqrt() * torch.randn(value.shape, generator=noise)
        for name, value in exact.items()
    }


def fill(folder: Path, names: list[str], first: int) -> None:
    """Train the runs of these sets that are not in the cache."""
    torch.set_num_threads(1)
    for name in names:
        for plan in SETS[name](first):
            if not (folder / plan.file).exists():
                began = time.perf_counter()
                facts = trained(plan, folder).metadata
                spent = time.perf_counter() - began
                accuracy, epochs = facts["accuracy"]["value"], facts["training"]["epochs"]
                print(f"{plan.file}  {accuracy:.4f} after {epochs} epochs, {spent:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="cache of trained models")
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}; all of them if none is named")
    parser.add_argument("--fresh", action="store_true", help="seeds that the rule has never seen")
    options = parser.parse_args()
    fill(options.folder, options.sets or list(SETS), FRESH if options.fresh else FIRST)


if __name__ == "__main__":
    main()
