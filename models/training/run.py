"""A training run. It can stop after any epoch and resume bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.config import CountingConfig
from counting_interp.models.training.engine import Recipe, engine_for, validation_sequences
from counting_interp.models.training.torch_engine import Differentiate, TorchEngine, train_together
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError

HISTORY = 40  # epochs whose loss and accuracy travel with the model


class Run:
    """A model in training.

    Args:
        config: the model; its seed fixes the initial weights and the data.
        recipe: what is done.
        weights: initial weights; `first_weights` by default.
        state: the `state()` that belongs to `weights`.
        keep_best: remember the weights of the epoch with the highest accuracy, the first of equals; see `kept`.

    Attributes:
        losses: mean training loss of each epoch so far.
        accuracies: validation accuracy per position after each epoch so far.
        validation: the validation sequences [batch, pos].
        selection: the runs among which this one was the best, for its metadata.

    Raises:
        InterpError: `state` does not fit this run.
    """

    def __init__(
        self,
        config: CountingConfig,
        recipe: Recipe,
        weights: dict[str, Tensor] | None = None,
        state: TrainingState | None = None,
        *,
        keep_best: bool = False,
    ) -> None:
        self.config = config
        self.recipe = recipe
        self.engine = engine_for(config, recipe, weights or first_weights(config, recipe))
        self.losses: list[float] = []
        self.accuracies: list[float] = []
        self.selection: dict[str, Any] | None = None
        if state is not None:
            self._restore(state)
        self._best = (self.epoch, self.engine.state_dict()) if keep_best else None
        self.validation = validation_sequences(config, recipe)
        self._validation = self.engine.given(self.validation)

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.losses)

    @property
    def step(self) -> int:
        """Steps done."""
        return self.epoch * self.recipe.steps_per_epoch

    @property
    def positions(self) -> int:
        """Positions of the validation sequences."""
        return self.recipe.validation * self.config.L

    @property
    def finished(self) -> bool:
        return self.epoch >= self.recipe.epochs

    def advance(self) -> None:
        """Train for one epoch on fresh sequences and measure the accuracy."""
        self._close_epoch(self.train_epoch())

    def train_epoch(self) -> float:
        """Train for one epoch without recording it; returns the mean loss."""
        return self.engine.train(self.engine.draw(self.epoch), self.step)

    def _close_epoch(self, loss: float) -> None:
        self.losses.append(loss)
        self.accuracies.append(self.engine.count_right(self._validation) / self.positions)
        if self._best is not None and (not self._best[0] or self.accuracies[-1] > self.accuracies[self._best[0] - 1]):
            self._best = (self.epoch, self.engine.state_dict())

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose weights are kept; None without `keep_best`."""
        return self._best and self._best[0]

    def remember(self, weights: dict[str, Tensor], epoch: int) -> None:
        """Keep these weights, which an earlier process kept, as the best so far."""
        self._best = (epoch, weights)

    def model(self) -> CountingTransformer:
        """A copy of the model after the last epoch, with its provenance as metadata."""
        return CountingTransformer(
            self.config, self.engine.state_dict(), self.facts(self.step, self.accuracies, self.losses)
        )

    def kept(self) -> CountingTransformer:
        """The model that the run saves: that of the best epoch with `keep_best`, else that of the last."""
        if self._best is None:
            return self.model()
        epoch, weights = self._best
        facts = self.facts(epoch * self.recipe.steps_per_epoch, self.accuracies, self.losses)
        if epoch < self.epoch:
            facts["last_accuracy"] = {**facts["accuracy"], "epoch": self.epoch}
            facts["accuracy"] = {**facts["accuracy"], "value": self.accuracies[epoch - 1]}
        return CountingTransformer(self.config, weights, facts)

    def state(self) -> TrainingState:
        """What is needed to resume, without the weights. The data of an epoch follow from its number."""
        first, second = self.engine.moments
        arrays = {
            "first_moment": first.copy(),
            "second_moment": second.copy(),
            "losses": np.array(self.losses),
            "accuracies": np.array(self.accuracies),
        }
        return TrainingState(arrays, {"recipe": self.recipe.to_dict()})

    def _restore(self, state: TrainingState) -> None:
        """Take over a state from a file, or refuse it with an InterpError."""
        arrays = state.arrays
        for moment, name in zip(self.engine.moments, ("first_moment", "second_moment"), strict=True):
            if name not in arrays or arrays[name].shape != moment.shape or arrays[name].dtype != moment.dtype:
                raise InterpError(
                    f"the training state has no {name} that fits {self.config.name}; train from the start"
                )
            moment[:] = arrays[name]
        losses, accuracies = (arrays.get(name, np.zeros(())) for name in ("losses", "accuracies"))
        shapes_fit = losses.shape == accuracies.shape and losses.ndim == 1 and 0 < len(losses) <= self.recipe.epochs
        if not shapes_fit or losses.dtype != np.float64 or accuracies.dtype != np.float64:
            raise InterpError("the training state has no losses and accuracies of its epochs; train from the start")
        if not ((accuracies >= 0) & (accuracies <= 1)).all():
            raise InterpError("the training state contains accuracies outside [0, 1]; train from the start")
        self.losses, self.accuracies = losses.tolist(), accuracies.tolist()

    def facts(self, step: int, accuracies: Sequence[float], losses: Sequence[float]) -> dict[str, Any]:
        """The provenance of a model of this run. Accuracies without losses were measured within the first epoch."""
        facts: dict[str, Any] = {
            "task": {"sampler": self.recipe.sampler, "T": self.config.T, "L": self.config.L},
            "training": self.recipe.to_dict(),
            "seed": self.config.seed,
            "step": step,
        }
        if self.selection is not None:
            facts["selection"] = self.selection
        if accuracies:
            sample = {"n_sequences": self.recipe.validation, "sampler": self.recipe.sampler}
            facts["accuracy"] = {"value": accuracies[-1], **sample}
        if losses:
            best = max(accuracies)
            facts["best_accuracy"] = {"value": best, "epoch": accuracies.index(best) + 1, **sample}
            shown = [epoch for epoch in log_spaced(len(losses), HISTORY) if epoch]
            facts["history"] = {
                "epochs": shown,
                "losses": [losses[epoch - 1] for epoch in shown],
                "accuracies": [accuracies[epoch - 1] for epoch in shown],
            }
        return facts


def train(config: CountingConfig, recipe: Recipe | None = None) -> Run:
    """Train a model from its seed and return the finished run."""
    run = Run(config, recipe or Recipe())
    while not run.finished:
        run.advance()
    return run


def advance_together(runs: Sequence[Run], differentiate: Differentiate | None = None) -> None:
    """One epoch of several runs that differ only in their seed, all at the same epoch.

    `TorchEngine` trains them in one computation, with the bits of `advance` for each run.

    Args:
        differentiate: replaces autograd for batches of full size.
    """
    engines = [run.engine for run in runs if isinstance(run.engine, TorchEngine)]
    if len(engines) < len(runs):
        for run in runs:
            run.advance()
        return
    data = [engine.draw(runs[0].epoch) for engine in engines]
    for run, loss in zip(runs, train_together(engines, data, runs[0].step, differentiate), strict=True):
        run._close_epoch(loss)


def first_weights(config: CountingConfig, recipe: Recipe) -> dict[str, Tensor]:
    """The published initialisation, with the recipe's scale on queries and keys."""
    weights = CountingTransformer(config).state_dict()
    scaled = {name: recipe.qk_scale * weights[name] for name in weights if name.endswith((".W_Q", ".W_K"))}
    return weights | scaled


def log_spaced(last: int, n: int) -> list[int]:
    """About `n` different integers from 0 to `last`, both included, evenly spaced on a logarithmic scale."""
    return sorted({round((last + 1) ** (i / max(n - 1, 1))) - 1 for i in range(n)} | {0, last})


def snapshot_steps(recipe: Recipe, n: int) -> list[int]:
    """About `n` log-spaced steps from 0 to the last; after the first epoch only ends of epochs."""
    epoch = recipe.steps_per_epoch
    steps = log_spaced(recipe.epochs * epoch, n)
    return sorted({step if step < epoch else epoch * round(step / epoch) for step in steps})


def first_steps(run: Run, steps: Sequence[int]) -> Iterator[CountingTransformer]:
    """The models of a run that has not begun after these rising steps of its first epoch. The run is not changed."""
    if run.epoch or any(step >= run.recipe.steps_per_epoch for step in steps):
        raise ValueError(f"first steps are those before the end of the first epoch, got {list(steps)}")
    config, recipe = run.config, run.recipe
    engine = engine_for(config, recipe, run.engine.state_dict())
    sequences, validation = engine.draw(0), engine.given(run.validation)
    done = 0
    for step in steps:
        if step > done:
            engine.train(engine.part(sequences, done * recipe.batch_size, step * recipe.batch_size), done)
            done = step
        facts = run.facts(step, [engine.count_right(validation) / run.positions] if step else [], [])
        yield CountingTransformer(config, engine.state_dict(), facts)
