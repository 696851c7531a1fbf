"""Training on given sequences at kernel speed: at a temperature, and with weights that shrink.

**Temperature.** The loss is the cross-entropy of logits / tau: it asks for margins of some tau, and one step of Adam
moves a logit tau times as far. The engine need not know: it is given W_out / tau and b_out / tau.

**Decay.** Once every known sequence is right, cross-entropy can still be lowered by making all logits larger, which
proves nothing: what other sequences do grows alike. So the matrices shrink a little after each part. Where the loss is
almost zero, what grows is then the margin relative to the weights, and with it what known sequences say about others.
Softmax bounds what attention can do, and matrices that always shrink come to rest at a loss that holds against it, with
some cells wrong for ever. There every second round shrinks them only while the loss is small.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import engine_for

READ_OUT = ("blocks.0.mlp.W_out", "blocks.0.mlp.b_out")
LR = 1e-3  # at the beginning of a round; it falls to zero along a cosine


class Trainer:
    """Weights in training for a number of parts with equally many batches, from fresh moments of Adam.

    Args:
        decay: share of the matrices that is taken away after each part, in proportion to the learning rate.
        decay_below: only after a part whose mean loss is below this.
    """

    def __init__(
        self,
        config: CountingConfig,
        weights: dict[str, Tensor],
        batch_size: int,
        batches: int,
        parts: int,
        temperature: float = 1.0,
        decay: float = 0.0,
        decay_below: float = math.inf,
    ) -> None:
        self.config, self.temperature, self.decay, self.decay_below = config, temperature, decay, decay_below
        self.recipe = Recipe(
            epochs=parts, sequences=batches * batch_size, batch_size=batch_size, lr=LR, schedule="cosine"
        )
        self._engine = engine_for(config, self.recipe, _read_out_times(weights, 1 / temperature))
        self._done = 0

    def train(self, sequences: Int[Tensor, "n pos"]) -> float:
        """One part, batch by batch; returns the mean loss."""
        loss = self._engine.train(self._engine.given(sequences), self._done)
        rate = float(self.recipe.rates(self._done, 1)[0]) / LR if loss < self.decay_below else 0.0
        self._done += self.recipe.steps_per_epoch
        weights = {
            name: value * (1 - self.decay * rate) if value.ndim == 2 else value
            for name, value in self._engine.state_dict().items()
        }
        self._go_on_with(with_equal_places(weights))
        return loss

    def _go_on_with(self, weights: dict[str, Tensor]) -> None:
        moments = self._engine.moments
        self._engine = engine_for(self.config, self.recipe, weights)
        for moment, before in zip(self._engine.moments, moments, strict=True):
            moment[:] = before

    def weights(self) -> dict[str, Tensor]:
        """A state dict of the weights as they are now."""
        return _read_out_times(self._engine.state_dict(), self.temperature)


def _read_out_times(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: value * factor if name in READ_OUT else value for name, value in weights.items()}


def with_equal_places(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A constant mixer replaced by the nearest one that treats all other positions alike: one value on the diagonal,
    one beside it. Trained ones are close to that, and it makes the proof easy: what the other positions hold is then a
    multiset, as in `dot` and `bos` models, whose weights stay as they are."""

    def nearest(A: Tensor) -> Tensor:
        own = torch.eye(len(A), dtype=torch.bool)
        return torch.where(own, A[own].mean(), A[~own].mean())

    return {name: nearest(value) if name.endswith("attn.A") else value for name, value in weights.items()}
