"""Running a model on many sequences without running out of memory or patience, whatever its size."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.config import CountingConfig
from models.transformer import CountingTransformer

_NUMBERS_AT_ONCE = 2**22
_MULTIPLICATIONS = 10**10  # about a second; 3,000 sequences of the paper's models take less
_FEWEST = 8


def batch_size(config: CountingConfig) -> int:
    """How many sequences to run together so that the largest activation stays near 16 MB."""
    positions = config.n_positions
    return max(1, min(1024, _NUMBERS_AT_ONCE // (positions * max(positions, config.d, config.p, config.classes))))


def affordable(config: CountingConfig, most: int) -> int:
    """A number of sequences that takes about a second: `most`, and fewer for models far beyond the paper's sizes."""
    L, d, p = config.n_positions, config.d, config.p
    cost = config.n_layers * L * (2 * L * d + 2 * d * d + d * p + p * config.classes)
    return max(_FEWEST, min(most, _MULTIPLICATIONS // cost))


def share_right(model: CountingTransformer, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch"]:
    """Of each sequence, the share of positions that the model counts rightly (in float64, on the CPU)."""
    device = model.embed.W_E.device
    parts = []
    for part in tokens.split(batch_size(model.config)):
        right = model.predict(part.to(device)).cpu() == model.truth(part)
        parts.append(right.double().mean(1))
    return torch.cat(parts)
