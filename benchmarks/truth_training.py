"""Trained models of known mechanism: constraints on the weights enforce it. Seeds are trained as stacks.

    nice -n 10 python -m benchmarks.truth_training out/truths [--set third]

How the mechanism of each family is known:

- `rank-one`: the hidden units read one number but have different biases. Attention must compare, but two groups of
  tokens may step in opposite directions, each in its own range: RC or gated.
- `one number`: the hidden units read one coordinate, in which all tokens are equal. Under softmax only the weight of
  `$` is left to read: RC. Later it was found that a token may still step in the opposite direction, by attending less
  to its copies. Then a share is gated.
- `angles`: hand-set attention gives weight to equal tokens, and little or none to others. The hidden units read two
  coordinates, in which each token has its own angle. So the token is needed to read what a match writes: gated.
- `constant mixer`: in `lin` and `lin+sftm` attention weights do not depend on tokens: IC.
- `queries frozen`: W_Q is zero and stays zero, in every block. No attention weight depends on the query: IC.
- `relation`, `gated`: the first block compares by hand. It writes the count in the same way for all tokens, or turned
  by an angle for each token. The other blocks are uniform and cannot compare. That they hold no inventory instead is
  not enforced, but measured: the first block moves the answer by 0.7 to 0.95 of the count.
- `late`: the same, after blocks in which a position sees only itself and its neighbour, and so cannot count.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call, vmap

from benchmarks.standard import StandardCounter
from counting_interp.models import CountingConfig, CountingTransformer, task

FROZEN = {  # commits that had last changed the measure or its rule when these sets were drawn
    "third": "7d30a3bc397a85ecbf77a7b51b81344681a524d1",
    "fourth": "c9d327f1e9ccdbab0b0ec93ff378efae7e52000d",
}
SETS = {"first": 100, "second": 900, **{name: int(commit[:7], 16) for name, commit in FROZEN.items()}}  # first seeds
W_IN, W_E, W_Q, W_K = "blocks.0.mlp.W_in", "embed.W_E", "blocks.0.attn.W_Q", "blocks.0.attn.W_K"
MIXERS = {"n": "near", "u": "uniform", "p": "peers", "r": "relation", "g": "gated"}
DEEP = (  # family, truth, mixers from the first block to the last
    ("late", "RC", "nnnr"),
    ("late", "gated", "nnng"),
    ("late", "IC", "nnnu"),
    ("late", "RC", "nnnnrn"),
    ("late", "gated", "nnnngn"),
    ("late", "IC", "nnnnun"),
    ("early", "RC", "rnnnnn"),
    ("early", "gated", "gnnnnn"),
    ("early", "IC", "unnnnn"),
    ("looked up", "RC", "nnrpnp"),
    ("looked up", "gated", "nngpnp"),
    ("looked up", "IC", "nnupnp"),
    ("looked up", "IC", "upupup"),
)


@dataclass(frozen=True)
class Stack:
    """Runs that differ in their seed only."""

    family: str
    truth: str
    sizes: dict[str, Any]
    variant: str = ""  # of the paper's blocks; empty for a standard block
    n_seeds: int = 4
    steps: int = 800
    lr: float = 5e-3

    @property
    def name(self) -> str:
        sizes = "_".join(f"{key}{'-'.join(x) if isinstance(x, tuple) else x}" for key, x in self.sizes.items())
        return f"{self.family.replace(' ', '-')}_{self.variant}_{sizes}".replace("+", "")

    def build(self, seed: int) -> CountingTransformer | StandardCounter:
        if self.variant:
            return CountingTransformer(
                CountingConfig.parse(self.variant, **self.sizes, seed=seed), metadata={"training": {"sampler": "paper"}}
            )
        return StandardCounter(**self.sizes, seed=seed)


def stacks() -> Iterator[Stack]:
    """All stacks, the cheapest first."""
    for variant in ("bos", "bos+sftm"):
        yield Stack("rank-one", "RC|gated|mixed", {"T": 8, "L": 4, "d": 12, "p": 12}, variant, 8, 2500, 1e-2)
    small = {"T": 10, "L": 5, "d": 24, "p": 48, "n_heads": 2}
    for bos, causal in ((True, False), (False, False), (True, True)):
        rest = {**small, "bos": bos, "causal": causal}
        for mixer, truth in (("uniform", "IC"), ("relation", "RC"), ("gated", "gated")):
            family = "queries frozen" if mixer == "uniform" else mixer
            for n in (1, 2):
                yield Stack(family, truth, {**rest, "mixers": (mixer, *["uniform"] * (n - 1))})
    for variant in ("dot+sftm", "bos+sftm"):
        yield Stack("queries frozen", "IC", {"T": 8, "L": 5, "d": 12, "p": 32}, variant)
        yield Stack("queries frozen", "IC", {"T": 8, "L": 4, "d": 12, "p": 32, "n_layers": 2}, variant)
    yield Stack("one number", "RC", {"T": 8, "L": 4, "d": 12, "p": 12}, "bos+sftm", 12, 5000, 1e-2)
    for variant in ("dot", "bos+sftm"):
        yield Stack("angles", "gated", {"T": 8, "L": 5, "d": 10, "p": 32}, variant, 8, 5000, 1e-2)
    for variant in ("lin", "lin+sftm"):
        yield Stack("constant mixer", "IC", {"T": 8, "L": 5, "d": 12, "p": 32}, variant)
    for n in (4, 5, 6):
        yield Stack("queries frozen", "IC", {**small, "bos": True, "causal": False, "mixers": ("uniform",) * n})
    for family, truth, mixers in DEEP:
        named = tuple(MIXERS[letter] for letter in mixers)
        yield Stack(family, truth, {**small, "bos": True, "causal": False, "mixers": named}, n_seeds=2)


def trained(stack: Stack, folder: Path, first: int) -> list[tuple[int, CountingTransformer | StandardCounter]]:
    """Seeds and models of a stack, loaded from the folder or trained now."""
    seeds = range(first, first + stack.n_seeds)
    path = folder / f"{stack.name}_{first}.safetensors"
    models = [stack.build(seed) for seed in seeds]
    if not path.exists():
        train(models, tie_of(stack), steps=stack.steps, lr=stack.lr, seed=first)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(
            {f"{i}.{key}": w.contiguous() for i, model in enumerate(models) for key, w in model.state_dict().items()},
            path,
        )
    weights = load_file(path)
    for i, model in enumerate(models):
        model.load_state_dict({key: weights[f"{i}.{key}"] for key in model.state_dict()})
    return list(zip(seeds, models, strict=True))


Tie = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def tie_of(stack: Stack) -> Tie:
    """The map from trained weights to the weights of the model, which enforces the mechanism."""
    T = stack.sizes["T"]

    def rank_one(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        W = weights[W_IN]
        return {**weights, W_IN: W[..., :1] * W[..., :1, :].tanh()}

    def one_number(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        W, E = weights[W_IN], weights[W_E]
        shared = torch.cat([torch.ones_like(E[..., :T, :1]), E[..., T:, :1]], -2)
        return {
            **weights,
            W_IN: torch.cat([W[..., :1, :], 0 * W[..., 1:, :]], -2),
            W_E: torch.cat([shared, E[..., 1:]], -1),
        }

    def angles(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Coordinates: a one-hot name, which attention matches and the hidden units do not read; then the angle."""
        W, E = weights[W_IN], weights[W_E]
        turn = 2 * math.pi * torch.arange(T) / T
        tokens = torch.cat([torch.eye(T), turn.cos()[:, None], turn.sin()[:, None]], 1)
        start = torch.cat([torch.ones(T), torch.zeros(2)]).expand(E.shape[-2] - T, -1)  # `$` matches every token
        size = (8.0 if stack.variant.endswith("sftm") else 0.25) * math.sqrt(T + 2)
        match = math.sqrt(size) * torch.diag(torch.cat([torch.ones(T), torch.zeros(2)]))
        return {
            **weights,
            W_IN: torch.cat([0 * W[..., :T, :], W[..., T:, :]], -2),
            W_E: torch.cat([tokens, start]).expand_as(E),
            W_Q: match.expand_as(weights[W_Q]),
            W_K: match.expand_as(weights[W_K]),
        }

    def no_queries(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        return {key: w * 0 if key.endswith("W_Q") else w for key, w in weights.items()}

    ties: dict[str, Tie] = {"rank-one": rank_one, "one number": one_number, "angles": angles}
    if stack.variant:
        ties["queries frozen"] = no_queries
    return ties.get(stack.family, lambda weights: weights)


def train(
    models: list[Any], tie: Tie, *, steps: int, lr: float, seed: int, batch: int = 64, weight_decay: float = 0.0
) -> None:
    """Train all models in place, in one batched computation, by Adam with a falling learning rate."""
    config, module = models[0].config, _Run(models[0])
    frozen = {name for name, weight in models[0].named_parameters() if not weight.requires_grad}
    weights = {
        name: torch.stack([m.state_dict()[name] for m in models]).detach() for name, _ in models[0].named_parameters()
    }
    learned = [w.requires_grad_() for name, w in weights.items() if name not in frozen]
    optimizer = torch.optim.AdamW(learned, lr=lr, betas=(0.9, 0.98), weight_decay=weight_decay)
    rng = torch.Generator().manual_seed(seed)
    run = vmap(lambda state, tokens: functional_call(module, {f"model.{k}": w for k, w in state.items()}, (tokens,)))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lr * min(1.0, 2 * (1 - step / steps), (step + 1) / 50)
        tokens = task.sample("paper", batch * len(models), T=config.T, L=config.L, generator=rng)
        classes = models[0].truth(tokens).reshape(len(models), batch, -1) - 1
        logits = run(tie(weights), tokens.reshape(len(models), batch, -1))
        loss = (
            nn.functional.cross_entropy(logits.flatten(0, 2), classes.flatten(), reduction="sum") / classes[0].numel()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    final = tie({name: w.detach() for name, w in weights.items()})
    for i, model in enumerate(models):
        model.load_state_dict({name: w[i] for name, w in final.items()}, strict=False)


class _Run(nn.Module):
    """A model without the checks of its input."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, tokens: Tensor) -> Tensor:
        if isinstance(self.model, StandardCounter):
            return self.model(tokens)
        config = self.model.config
        if config.has_bos:
            tokens = torch.cat([tokens.new_full((len(tokens), 1), config.T), tokens], 1)
        return self.model.run_blocks(tokens)[:, -config.L :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="of the trained weights")
    parser.add_argument("--set", choices=SETS, default="first", help="whose seeds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for stack in stacks():
        began = time.perf_counter()
        models = trained(stack, options.folder, SETS[options.set])
        right = [f"{model.accuracy(n=300):.3f}" for _, model in models]
        print(f"{stack.name}: {' '.join(right)}; {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
