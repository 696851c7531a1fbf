"""Training on given sequences in the compiled kernels, at a temperature.

At temperature tau the loss is the cross-entropy of logits / tau: it asks for margins of some tau, and one step of Adam
moves a logit tau times as far. The kernels need not know: they are given W_out / tau and b_out / tau.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from models.config import CountingConfig
from models.training import Recipe
from models.training.engine import Engine
from models.training.memory import multisets_of

READ_OUT = ("mlp.W_out", "mlp.b_out")


class Trainer:
    """Weights in training, from fresh moments of Adam."""

    def __init__(
        self, config: CountingConfig, weights: dict[str, Tensor], batch_size: int, temperature: float = 1.0
    ) -> None:
        self.config, self.temperature, self.steps = config, temperature, 0
        self._batch_size = batch_size
        self._engine = Engine(config, Recipe(batch_size=batch_size), _scaled(weights, config, 1 / temperature))

    def train(self, sequences: Int[Tensor, "n pos"], lr: float) -> float:
        """One pass over the sequences, batch by batch; returns the mean loss."""
        loss = self._engine.train(multisets_of(self.config, sequences), self.steps, lr)
        self.steps += -(-len(sequences) // self._batch_size)
        if self.config.mixing == "lin":
            self._engine.weights.read(with_equal_places(self._engine.weights.write()))
        return loss

    def weights(self) -> dict[str, Tensor]:
        """A state dict of the weights as they are now."""
        return _scaled(self._engine.weights.write(), self.config, self.temperature)


def _scaled(weights: dict[str, Tensor], config: CountingConfig, factor: float) -> dict[str, Tensor]:
    last = tuple(f"blocks.{config.n_layers - 1}.{name}" for name in READ_OUT)
    return {name: value * factor if name in last else value for name, value in weights.items()}


def with_equal_places(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Constant mixers replaced by the nearest ones that treat all other places alike: one value on the diagonal, one
    beside it. Trained ones are close to that, and it makes the proof exact: what the other places hold is then a
    multiset, as in `dot` and `bos` models."""

    def nearest(A: Tensor) -> Tensor:
        own = torch.eye(len(A), dtype=torch.bool)
        return torch.where(own, A[own].mean(), A[~own].mean())

    return {name: nearest(value) if name.endswith("attn.A") else value for name, value in weights.items()}
