"""Running a model on many sequences without running out of memory, whatever its size."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models import task
from models.config import CountingConfig
from models.transformer import CountingTransformer

_NUMBERS_AT_ONCE = 2**22


def batch_size(config: CountingConfig) -> int:
    """How many sequences to run together so that the largest activation stays near 16 MB."""
    positions = config.n_positions
    return max(1, min(1024, _NUMBERS_AT_ONCE // (positions * max(positions, config.d, config.p, config.classes))))


def share_right(model: CountingTransformer, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch"]:
    """Of each sequence, the share of positions that the model counts rightly (in float64, on the CPU)."""
    device = model.embed.W_E.device
    parts = []
    for part in tokens.split(batch_size(model.config)):
        right = model.predict(part.to(device)).cpu() == task.histogram(part)
        parts.append(right.double().mean(1))
    return torch.cat(parts)
