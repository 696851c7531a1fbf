"""The sequences of a run: drawn as multisets, the same for both engines; spelled out for the one that reads tokens."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.config import CountingConfig
from counting_interp.models.training.kernels.sampling import PAPER, PUBLISHED, UNIFORM, Multisets, collect_all, draw
from counting_interp.models.training.recipe import Recipe

VALIDATION_SEED = 12  # the authors' choice: all runs of the same T and L are measured on the same sequences
SAMPLERS = {"paper": PAPER, "published": PUBLISHED, "uniform": UNIFORM}


def empty_multisets(config: CountingConfig, n: int) -> Multisets:
    """Room for n sequences. A `bos` sequence has up to L + 1 keys."""
    wide, narrow = np.zeros((n, config.L + 1), np.int32), np.zeros((n, config.L), np.int32)
    return Multisets(wide, wide.copy(), np.zeros(n, np.int32), narrow)


def multisets_of(config: CountingConfig, tokens: Int[Tensor, "batch pos"]) -> Multisets:
    """Given sequences as the kernels read them."""
    data = empty_multisets(config, len(tokens))
    collect_all(tokens.to(torch.int32).numpy(), config.T, config.has_bos, data)
    return data


def draw_multisets(config: CountingConfig, recipe: Recipe, epoch: int, data: Multisets) -> None:
    """Fill `data` with the sequences of an epoch; their order is drawn only for models that can see it."""
    sampler, seed = SAMPLERS[recipe.sampler], config.seed
    with np.errstate(over="ignore"):  # the random numbers are meant to wrap around, also where nothing is compiled
        draw(np.zeros(1, np.uint64), seed, epoch, sampler, config.T, config.has_bos, config.reads_positions, data)


def draw_tokens(config: CountingConfig, recipe: Recipe, epoch: int) -> Int[Tensor, "batch pos"]:
    """The same sequences as tokens; where order does not matter, equal ones stand side by side."""
    data = empty_multisets(config, recipe.sequences)
    draw_multisets(config, recipe, epoch, data)
    if config.reads_positions:
        return torch.from_numpy(np.take_along_axis(data.tokens, data.places, 1)).long()
    counts = np.where(np.arange(config.L + 1) < data.keys[:, None] - config.has_bos, data.counts, 0)
    return torch.from_numpy(np.repeat(data.tokens.ravel(), counts.ravel()).reshape(-1, config.L)).long()


def validation_sequences(config: CountingConfig, recipe: Recipe) -> Int[Tensor, "batch pos"]:
    return task.sample(recipe.sampler, recipe.validation, T=config.T, L=config.L, generator=VALIDATION_SEED)
