"""What trains a model: one protocol, two engines, chosen by what they can do.

`KernelEngine` is fast and knows the paper's six variants; `TorchEngine` is autograd on the hooked module itself and
trains whatever that can compute. Both draw the same sequences, follow the same recipe, and go on from a checkpoint to
the same bits.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.training.kernels.compiling import WHY_NOT_COMPILED
from counting_interp.models.training.recipe import Recipe


@runtime_checkable
class Engine(Protocol):
    """A model's weights in training. Sequences are handed over in the form that the engine reads: `draw` gives those of
    an epoch, `given` takes any. So `engine.train(engine.given(tokens), steps_done)` trains on sequences of one's own.

    Attributes:
        moments: the two moments of Adam, flat; in place, so that a run can be gone on with.
    """

    moments: tuple[np.ndarray, np.ndarray]

    def draw(self, epoch: int) -> Any:
        """The fresh sequences of an epoch, which depend on the model's seed, the epoch and the recipe's sampler."""

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Any:
        """Sequences from outside."""

    def part(self, data: Any, first: int, last: int) -> Any:
        """Sequences first..last of some, the last not among them. Training on the parts, cut between two batches, one
        after the other is training on the whole, to the bit."""

    def train(self, data: Any, steps_done: int) -> float:
        """Train on all sequences, batch by batch; returns the mean loss. `steps_done` says where in the schedule of the
        learning rate, and in Adam's warm-up, the first batch stands."""

    def count_right(self, data: Any) -> int:
        """How many positions are counted rightly."""

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """As the engine computes them, for at most one batch of sequences."""

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the weights."""

    def gradients(self) -> dict[str, Tensor]:
        """Of the last step."""


def why_no_kernels(config: CountingConfig, recipe: Recipe) -> str | None:
    """Why the compiled kernels cannot train this model by this recipe; None if they can."""
    if config.extras:
        beyond = ", ".join(config.extras)
        return f"the kernels compute the paper's six variants, and {config.name} has {beyond} beyond {config.variant}"
    if recipe.weight_decay:
        return f"the kernels have Adam without weight decay, and the recipe asks for {recipe.weight_decay:g}"
    return WHY_NOT_COMPILED


def engine_for(config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> Engine:
    """The faster of the engines that can do it."""
    if why_no_kernels(config, recipe) is None:
        from counting_interp.models.training.kernel_engine import KernelEngine

        return KernelEngine(config, recipe, weights)
    from counting_interp.models.training.torch_engine import TorchEngine

    return TorchEngine(config, recipe, weights)
