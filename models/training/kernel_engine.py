"""Training by compiled kernels: the paper's six variants, a hundred times as fast as the published code."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.training.arithmetic import kernel_arithmetic
from counting_interp.models.training.kernels.blocks import Course
from counting_interp.models.training.kernels.epoch import evaluate, train
from counting_interp.models.training.kernels.sampling import Multisets
from counting_interp.models.training.memory import WeightArrays, layers_of, shape_of, targets_of
from counting_interp.models.training.recipe import Recipe
from counting_interp.models.training.sequences import draw_multisets, empty_multisets, multisets_of


class KernelEngine:
    """See `Engine`; sequences are multisets. Weights and moments are flat arrays, padding included."""

    def __init__(self, config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.config, self.recipe = config, recipe
        self._weights = WeightArrays(config)
        self._weights.read(weights)
        self._gradient = WeightArrays(config)
        self.moments = (np.zeros_like(self._weights.kernel.flat), np.zeros_like(self._weights.kernel.flat))
        self._fresh = empty_multisets(config, recipe.sequences)
        self._shape = shape_of(config)
        self._course = Course(recipe.batch_size, *map(float, (recipe.beta1, recipe.beta2, recipe.eps)))
        layers = layers_of(config, recipe.batch_size, self._weights, self._gradient)
        self._first, self._last = layers[0], layers[-1]
        self._second = layers[1] if len(layers) == 2 else None
        self._targets = targets_of(config, recipe.batch_size)

    def draw(self, epoch: int) -> Multisets:
        draw_multisets(self.config, self.recipe, epoch, self._fresh)
        return self._fresh

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Multisets:
        return multisets_of(self.config, tokens)

    def part(self, data: Multisets, first: int, last: int) -> Multisets:
        return Multisets(*(column[first:last] for column in data))

    def train(self, data: Multisets, steps_done: int) -> float:
        steps = -(-len(data.keys) // self.recipe.batch_size)
        with kernel_arithmetic():
            return train(
                data,
                self._shape,
                self._course,
                steps_done,
                self.recipe.rates(steps_done, steps),
                self._weights.kernel,
                self._gradient.kernel,
                self.moments,
                self._first,
                self._second,
                self._targets,
            )

    def count_right(self, data: Multisets) -> int:
        with kernel_arithmetic():
            return evaluate(
                data,
                self._shape,
                self._course.batch_size,
                self._weights.kernel,
                self._first,
                self._second,
                self._targets,
            )

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        data = self.given(tokens)
        self.count_right(data)
        n, config = len(tokens), self.config
        if config.mixing == "lin":
            rows = np.arange(config.L) * n + np.arange(n)[:, None]
        else:
            rows = np.empty((n, config.L), int)
            rows[self._first.rows.order[:n]] = self._last.rows.start[:n, None]
            rows += data.places
        return torch.from_numpy(self._last.trace.out[rows, : config.classes])

    def state_dict(self) -> dict[str, Tensor]:
        return self._weights.write()

    def gradients(self) -> dict[str, Tensor]:
        return self._gradient.write()
