"""The recipe of a training run: one frozen value, by default the published protocol."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from counting_interp.models import task

SCHEDULES = ("constant", "linear", "cosine")


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
        weight_decay: of AdamW: at each step all trained weights shrink by the factor 1 - rate * weight_decay.
        schedule: of the learning rate over the whole run: `constant`, or falling from lr to zero, `linear` or `cosine`.
        qk_scale: factor on the first values of every W_Q and W_K.
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
    weight_decay: float = 0.0
    schedule: str = "constant"
    qk_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("epochs", "sequences", "batch_size", "validation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
                raise ValueError(f"{name} must be an integer from 1 to 10**9, got {value!r}")
        for name, high in {"lr": 1, "beta1": 1, "beta2": 1, "eps": 1, "weight_decay": 10**6, "qk_scale": 10**3}.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < high:
                raise ValueError(f"{name} must be at least 0 and below {high}, got {value!r}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")
        task.check_sampler(self.sampler, T=2, L=2)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.sequences // self.batch_size)

    def rates(self, steps_done: int, steps: int) -> Float[np.ndarray, "step"]:
        """The learning rate of each of the next steps."""
        done = np.minimum(np.arange(steps_done, steps_done + steps) / (self.epochs * self.steps_per_epoch), 1.0)
        left = {"constant": np.ones(steps), "linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2}
        return self.lr * left[self.schedule]

    def to_dict(self) -> dict[str, Any]:
        """The fields; what the published protocol does not have, only where it is used."""
        beyond = {"weight_decay": 0.0, "schedule": "constant", "qk_scale": 1.0}
        return {name: value for name, value in dataclasses.asdict(self).items() if beyond.get(name) != value}
