"""A training run: epochs that can be stopped after any of them and gone on with, to the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from models import task
from models.config import CountingConfig
from models.training.engine import Engine
from models.training.kernels.sampling import PAPER, PUBLISHED, UNIFORM, draw
from models.training.memory import empty_multisets, multisets_of
from models.training.recipe import Recipe
from models.transformer import CountingTransformer

VALIDATION_SEED = 12  # the authors' choice: all runs of the same T and L are measured on the same sequences
SAMPLERS = {"paper": PAPER, "published": PUBLISHED, "uniform": UNIFORM}


class Run:
    """A model in training.

    Args:
        config: the model; its seed fixes the initial weights and the data.
        recipe: what is done.

    Attributes:
        losses: mean training loss of each epoch so far.
        accuracies: validation accuracy after each epoch so far.
    """

    def __init__(self, config: CountingConfig, recipe: Recipe) -> None:
        self.config = config
        self.recipe = recipe
        self.losses: list[float] = []
        self.accuracies: list[float] = []
        self.engine = Engine(config, recipe, CountingTransformer(config).state_dict())
        self._data = empty_multisets(config, recipe.sequences)
        self._validation = multisets_of(config, validation_sequences(config, recipe))

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.losses)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.epoch * self.recipe.steps_per_epoch

    @property
    def finished(self) -> bool:
        return self.epoch >= self.recipe.epochs

    def advance(self) -> None:
        """Train for one epoch on fresh sequences, and measure."""
        config = self.config
        sampler = SAMPLERS[self.recipe.sampler]
        draw(config.seed, self.epoch, sampler, config.T, config.has_bos, config.mixing == "lin", self._data)
        loss = self.engine.train(self._data, self.step)
        right = self.engine.count_right(self._validation)
        self.losses.append(loss)
        self.accuracies.append(right / (self.recipe.validation * config.L))

    def model(self) -> CountingTransformer:
        """The model as it is now, independent of the run."""
        return CountingTransformer(self.config, self.engine.weights.write())


@dataclass(frozen=True)
class TrainingResult:
    """What a run has come to.

    Attributes:
        model: after the last epoch.
        final_accuracy, best_accuracy: on the validation sequences, per position; after the last epoch, and of any.
        losses, accuracies: epoch by epoch.
        seconds: wall time, compilation included where it was needed.
    """

    model: CountingTransformer
    final_accuracy: float
    best_accuracy: float
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    seconds: float


def train(
    config: CountingConfig, recipe: Recipe | None = None, on_epoch: Callable[[Run], None] | None = None
) -> TrainingResult:
    """Train a model from its seed. `on_epoch(run)` is called after each epoch."""
    began = time.perf_counter()
    run = Run(config, recipe or Recipe())
    while not run.finished:
        run.advance()
        if on_epoch is not None:
            on_epoch(run)
    return TrainingResult(
        model=run.model(),
        final_accuracy=run.accuracies[-1],
        best_accuracy=max(run.accuracies),
        losses=tuple(run.losses),
        accuracies=tuple(run.accuracies),
        seconds=time.perf_counter() - began,
    )


def validation_sequences(config: CountingConfig, recipe: Recipe) -> Int[Tensor, "batch pos"]:
    return task.sample(recipe.sampler, recipe.validation, T=config.T, L=config.L, generator=VALIDATION_SEED)
