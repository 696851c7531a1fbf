"""The cost of running a model on many sequences, and running it in batches that fit into memory.

A file of 40 kB may hold a model with L = 4096, whose attention has 17 million entries for each sequence. So everything
that runs a model asks here first: how many sequences at a time (`batch_size`), how many in all (`affordable`), and
whether the work is feasible (`too_large`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.protocol import CountingModel, ModelSpec
from counting_interp.util.text import describe, duration

PATIENCE = 10  # seconds, about, on one quiet core; longer work is refused
_NUMBERS_AT_ONCE = 2**22
_NUMBERS_IN_ALL = 2**27  # half a gigabyte in single precision
MULTIPLICATIONS = 10**10  # about a second; 3,000 sequences of the paper's models take less
_FEWEST = 8
# Passes over attention and activations (scaling, softmax, hooks, comparisons), as multiplications for each entry.
_PER_SCORE, _PER_ACTIVATION = 60, 20


def batch_size(config: ModelSpec) -> int:
    """The number of sequences in a batch whose largest activation is near 16 MB."""
    positions = config.n_positions
    widest = max(positions * config.n_heads, config.d, config.p, config.classes)
    return max(1, min(1024, _NUMBERS_AT_ONCE // (positions * widest)))


def in_batches(
    config: ModelSpec, tokens: Int[Tensor, "batch pos"], run: Callable[[Int[Tensor, "part pos"]], Tensor]
) -> Tensor:
    """`run` on batches of `tokens`; its results, one row for each sequence, concatenated."""
    return torch.cat([run(batch) for batch in tokens.split(batch_size(config))])


def activations(
    model: CountingModel, tokens: Int[Tensor, "batch pos"], *names: str
) -> tuple[Float[Tensor, "batch ..."], ...]:
    """The activations at the named hook points, run in batches."""
    batches = []
    for batch in tokens.split(batch_size(model.config)):
        _, cache = model.run_with_cache(batch, names_filter=list(names))
        batches.append([cache[name] for name in names])
    return tuple(torch.cat(activation) for activation in zip(*batches, strict=True))


def affordable(config: ModelSpec, most: int) -> int:
    """A number of sequences that takes about a second: `most`, or fewer for models far beyond the paper's sizes."""
    return max(_FEWEST, min(most, MULTIPLICATIONS // cost_of_sequence(config)))


def with_attention(config: ModelSpec, most: int) -> int:
    """An affordable number of sequences whose attention matrices fit into memory together."""
    return max(1, min(affordable(config, most), _NUMBERS_AT_ONCE // config.n_positions**2))


def too_large(config: ModelSpec, sequences: int, multiplications: int = 0, numbers: int = 0) -> str | None:
    """Why some work is too large: it takes minutes, or more memory than machines have. None if it is feasible.

    Args:
        sequences: run through the model.
        multiplications, numbers: computed and held in addition.
    """
    seconds = (sequences * cost_of_sequence(config) + multiplications) / MULTIPLICATIONS
    if seconds <= PATIENCE and numbers <= _NUMBERS_IN_ALL:
        return None
    needs = f"{4 * numbers / 2**30:,.0f} GB" if numbers > _NUMBERS_IN_ALL else f"about {duration(seconds)}"
    return f"needs {needs} on {describe(config)}; give it a smaller one, or call it from Python"


def share_right(model: CountingModel, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch"]:
    """For each sequence, the share of positions with the correct count (in float64, on the CPU)."""

    def shares(part: Int[Tensor, "part pos"]) -> Float[Tensor, "part"]:
        return (model.predict(part.to(model.device)).cpu() == model.truth(part)).double().mean(1)

    return in_batches(model.config, tokens, shares)


def cost_of_sequence(config: ModelSpec) -> int:
    """The cost of one sequence, in multiplications."""
    L, d, p = config.n_positions, config.d, config.p
    products = 2 * L * d + 2 * d * d + d * p + p * config.classes
    passes = _PER_SCORE * L * config.n_heads + _PER_ACTIVATION * max(config.classes, d, p)
    return config.n_layers * L * (products + passes)
