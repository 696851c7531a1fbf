"""A model's weights in the hands of the kernels: train on sequences, count what is right, read logits and gradients."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.config import CountingConfig
from models.training.arithmetic import kernel_arithmetic
from models.training.kernels.blocks import Course
from models.training.kernels.epoch import evaluate, train
from models.training.kernels.sampling import Multisets
from models.training.memory import WeightArrays, layers_of, multisets_of, shape_of, targets_of
from models.training.recipe import Recipe


class Engine:
    """Weights, moments of Adam, and the room to work on batches of a recipe.

    Attributes:
        weights, gradient: of the model; the gradient of the last step.
        moments: the two moments of Adam, flat, as the weights.
    """

    def __init__(self, config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.config = config
        self.weights = WeightArrays(config)
        self.weights.read(weights)
        self.gradient = WeightArrays(config)
        self.moments = (np.zeros_like(self.weights.kernel.flat), np.zeros_like(self.weights.kernel.flat))
        self._shape = shape_of(config)
        self._course = Course(recipe.batch_size, *map(float, (recipe.lr, recipe.beta1, recipe.beta2, recipe.eps)))
        layers = layers_of(config, recipe.batch_size, self.weights, self.gradient)
        self._first, self._last = layers[0], layers[-1]
        self._second = layers[1] if len(layers) == 2 else None
        self._targets = targets_of(config, recipe.batch_size)

    def train(self, data: Multisets, steps_done: int) -> float:
        """Train on all sequences, batch by batch; returns the mean loss."""
        with kernel_arithmetic():
            return train(
                data,
                self._shape,
                self._course,
                steps_done,
                self.weights.kernel,
                self.gradient.kernel,
                self.moments,
                self._first,
                self._second,
                self._targets,
            )

    def count_right(self, data: Multisets) -> int:
        """How many positions are counted rightly."""
        with kernel_arithmetic():
            return evaluate(
                data,
                self._shape,
                self._course.batch_size,
                self.weights.kernel,
                self._first,
                self._second,
                self._targets,
            )

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """Logits as the kernels compute them, for at most one batch of sequences."""
        data = multisets_of(self.config, tokens)
        self.count_right(data)
        n, config = len(tokens), self.config
        if config.mixing == "lin":
            rows = np.arange(config.L) * n + np.arange(n)[:, None]
        else:
            rows = np.empty((n, config.L), int)
            rows[self._first.rows.order[:n]] = self._last.rows.start[:n, None]
            rows += data.places
        return torch.from_numpy(self._last.trace.out[rows, : config.classes])
