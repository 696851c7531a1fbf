"""The recipe of a training run: one frozen value, by default the published protocol."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from models import task


@dataclass(frozen=True)
class Recipe:
    """Everything that fixes a run but the model and its seed.

    Args:
        epochs: passes of fresh sequences.
        sequences: in each epoch; the last batch is smaller where the batch size does not divide them.
        batch_size: sequences per step.
        lr, beta1, beta2, eps: of Adam.
        sampler: `paper`, `published` (what the authors trained with) or `uniform`; for training and validation.
        validation: sequences that the accuracy after each epoch is measured on, the same in all runs.
    """

    epochs: int = 500
    sequences: int = 10_000
    batch_size: int = 32
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    sampler: str = "paper"
    validation: int = 3000

    def __post_init__(self) -> None:
        for name in ("epochs", "sequences", "batch_size", "validation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
                raise ValueError(f"{name} must be an integer from 1 to 10**9, got {value!r}")
        for name, low, high in (("lr", 0, 1), ("beta1", 0, 1), ("beta2", 0, 1), ("eps", 0, 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value < high:
                raise ValueError(f"{name} must be at least {low} and below {high}, got {value!r}")
        task.check_sampler(self.sampler, T=2, L=2)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.sequences // self.batch_size)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
