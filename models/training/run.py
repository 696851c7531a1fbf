"""A training run. It can stop after any epoch and resume bit for bit.

`first_steps` trains the first epoch step by step, beside the run, for snapshots of it. The run itself is not touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.config import CountingConfig
from counting_interp.models.training.engine import engine_for, validation_sequences
from counting_interp.models.training.recipe import Recipe
from counting_interp.models.training.torch_engine import TorchEngine, train_together
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError

HISTORY = 40  # epochs whose loss and accuracy travel with the model


class Run:
    """A model in training.

    Args:
        config: the model; its seed fixes the initial weights and the data.
        recipe: what is done.
        weights: where to begin; `first_weights` when absent.
        state: what `state()` gave after the epoch that `weights` belong to.
        keep_best: remember the weights of the epoch with the highest accuracy so far, the first of equals; `kept()`.

    Attributes:
        losses: mean training loss of each epoch so far.
        accuracies: validation accuracy after each epoch so far.
        validation: the sequences [batch, pos] that it is measured on.
        selection: which runs it was chosen from, where it was chosen and is resumed.
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
        """That the accuracy is a share of."""
        return self.recipe.validation * self.config.L

    @property
    def finished(self) -> bool:
        return self.epoch >= self.recipe.epochs

    def advance(self) -> None:
        """Train for one epoch on fresh sequences, and measure."""
        self._close_epoch(self.train_epoch())

    def train_epoch(self) -> float:
        """The training half of `advance`, which does not count the epoch; returns its mean loss."""
        return self.engine.train(self.engine.draw(self.epoch), self.step)

    def _close_epoch(self, loss: float) -> None:
        right = self.engine.count_right(self._validation)
        self.losses.append(loss)
        self.accuracies.append(right / self.positions)
        if self._best is not None and (not self._best[0] or self.accuracies[-1] > self.accuracies[self._best[0] - 1]):
            self._best = (self.epoch, self.engine.state_dict())

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose weights are kept; None without `keep_best`."""
        return self._best and self._best[0]

    def remember(self, weights: dict[str, Tensor], epoch: int) -> None:
        """Keep these as the best so far: what an earlier process had kept."""
        self._best = (epoch, weights)

    def model(self) -> CountingTransformer:
        """The model as it is now, independent of the run, with where it comes from in its metadata."""
        return CountingTransformer(
            self.config, self.engine.state_dict(), self.facts(self.step, self.accuracies, self.losses)
        )

    def kept(self) -> CountingTransformer:
        """The model that the run leaves behind: that of the best epoch with `keep_best`, else that of the last."""
        if self._best is None:
            return self.model()
        epoch, weights = self._best
        facts = self.facts(epoch * self.recipe.steps_per_epoch, self.accuracies, self.losses)
        if epoch < self.epoch:
            facts["last_accuracy"] = {**facts["accuracy"], "epoch": self.epoch}
            facts["accuracy"] = {**facts["accuracy"], "value": self.accuracies[epoch - 1]}
        return CountingTransformer(self.config, weights, facts)

    def state(self) -> TrainingState:
        """What is needed beside the weights to resume. The data of an epoch follow from its number."""
        first, second = self.engine.moments
        arrays = {
            "first_moment": first.copy(),
            "second_moment": second.copy(),
            "losses": np.array(self.losses),
            "accuracies": np.array(self.accuracies),
        }
        return TrainingState(arrays, {"recipe": self.recipe.to_dict()})

    def _restore(self, state: TrainingState) -> None:
        """A state comes out of a file: what does not fit this run is refused."""
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
        """Where a model of this run comes from. Accuracies without losses were measured within the first epoch."""
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


def advance_together(runs: Sequence[Run], *, compiled: bool = False) -> None:
    """One epoch of several runs that differ in their seed only and have come equally far. Where the engine can, in one
    computation; the bits are those of `advance`, one run after the other, unless its steps are `compiled`."""
    engines = [run.engine for run in runs if isinstance(run.engine, TorchEngine)]
    if len(engines) < len(runs):
        for run in runs:
            run.advance()
        return
    fast = None
    if compiled:
        from counting_interp.models.training.torch_engine import compiled_step

        fast = compiled_step(engines[0], len(engines))
    losses = train_together(engines, [engine.draw(runs[0].epoch) for engine in engines], runs[0].step, fast)
    for run, loss in zip(runs, losses, strict=True):
        run._close_epoch(loss)


def first_weights(config: CountingConfig, recipe: Recipe) -> dict[str, Tensor]:
    """The published initialisation, with the recipe's scale on queries and keys."""
    weights = CountingTransformer(config).state_dict()
    scaled = {name: recipe.qk_scale * weights[name] for name in weights if name.endswith((".W_Q", ".W_K"))}
    return weights | scaled


def log_spaced(last: int, n: int) -> list[int]:
    """About `n` different integers from 0 to `last`, both among them, evenly spaced on a logarithmic scale."""
    return sorted({round((last + 1) ** (i / max(n - 1, 1))) - 1 for i in range(n)} | {0, last})


def snapshot_steps(recipe: Recipe, n: int) -> list[int]:
    """About `n` steps from 0 to the last, log-spaced: any step of the first epoch, and after it the ends of epochs."""
    epoch = recipe.steps_per_epoch
    steps = log_spaced(recipe.epochs * epoch, n)
    return sorted({step if step < epoch else epoch * round(step / epoch) for step in steps})


def first_steps(run: Run, steps: Sequence[int]) -> Iterator[CountingTransformer]:
    """The models that a run which has not begun will be after these steps (rising) of its first epoch."""
    if run.epoch or any(step >= run.recipe.steps_per_epoch for step in steps):
        raise ValueError(f"first steps are those before the end of the first epoch, got {list(steps)}")
    config, recipe = run.config, run.recipe
    engine = engine_for(config, recipe, run.engine.state_dict())
    fresh, validation = engine.draw(0), engine.given(run.validation)
    done = 0
    for step in steps:
        if step > done:
            engine.train(engine.part(fresh, done * recipe.batch_size, step * recipe.batch_size), done)
            done = step
        facts = run.facts(step, [engine.count_right(validation) / run.positions] if step else [], [])
        yield CountingTransformer(config, engine.state_dict(), facts)
