"""A training run on disk: one resumable checkpoint, and optional snapshots.

The checkpoint is an ordinary model with the state of its training beside it. A finished run keeps the state: it may be
extended later. Every write replaces the file atomically, so a kill leaves the last state or the one before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from counting_interp.models import checkpoint
from counting_interp.models.checkpoint import Checkpoint
from counting_interp.models.checkpoint.contents import check_numbers, check_shapes
from counting_interp.models.config import CountingConfig
from counting_interp.models.training.engine import Recipe
from counting_interp.models.training.run import Run, first_steps, snapshot_steps
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import CheckpointError, InterpError, Refused
from counting_interp.util.files import OutputError

LAST = "last."  # prefix of the last epoch's weights in the state of a run that keeps its best


@dataclass
class Recorder:
    """Writes the checkpoint of a run when it is due.

    Args:
        path: of the checkpoint.
        every: seconds between two checkpoints; 0 writes one after every epoch.
        snapshots: how many states of the run to keep, log-spaced over its steps; see `snapshot_path`.
        overwrite: replace snapshots of another run.
    """

    path: Path
    every: float = 10.0
    snapshots: int = 0
    overwrite: bool = False
    _written: float = field(default_factory=time.monotonic)
    _checked: bool = False

    def record(self, run: Run) -> None:
        """Write what is due; to be called before the first epoch and after each.

        Snapshots are written before the checkpoint, so that it never counts one that does not exist.

        Raises:
            OutputError: at the first call, if a snapshot would replace a file that is not of this run.
        """
        steps = snapshot_steps(run.recipe, self.snapshots) if self.snapshots else []
        if not self._checked:
            self._check_snapshots(run, steps)
            self._checked = True
        models: Iterable[CountingTransformer] = [run.model()] if run.step in steps else []
        if not run.epoch:  # all snapshots of the first epoch, before it begins
            models = first_steps(run, [step for step in steps if step < run.recipe.steps_per_epoch])
        for model in models:
            snapshot = self._snapshot_path(run, model.metadata["step"])
            snapshot.parent.mkdir(exist_ok=True)
            checkpoint.save(model, snapshot)
        if run.epoch and (run.finished or time.monotonic() - self._written >= self.every):
            self.write(run)

    def _snapshot_path(self, run: Run, step: int) -> Path:
        return snapshot_path(self.path, step, run.recipe.epochs * run.recipe.steps_per_epoch)

    def _check_snapshots(self, run: Run, steps: list[int]) -> None:
        for path in (self._snapshot_path(run, step) for step in steps):
            if path.is_symlink():
                raise OutputError(path, "is a link, and snapshots are not written through links; remove it")
            if path.exists() and not self.overwrite and not is_of_run(path, run.config, run.recipe):
                raise OutputError(path, "exists and belongs to another run; --overwrite replaces it")

    def write(self, run: Run) -> None:
        """Write the model that is kept; the state holds the last epoch's weights if these are not kept."""
        state = run.state()
        state.values["snapshots"] = self.snapshots
        if run.best_epoch is not None:
            state.values["best_epoch"] = run.best_epoch
            state.arrays.update({f"{LAST}{name}": weight.numpy() for name, weight in run.engine.state_dict().items()})
        checkpoint.save(run.kept(), self.path, training_state=state)
        self._written = time.monotonic()


def snapshot_path(path: Path, step: int, steps: int) -> Path:
    """`ckpt.snapshots/step-000313.pt` for `ckpt.pt`; the order of names is the order of steps."""
    return path.with_suffix(".snapshots") / f"step-{step:0{len(str(steps))}d}{path.suffix or '.pt'}"


def is_of_run(path: Path, config: CountingConfig, recipe: Recipe) -> bool:
    """Whether a checkpoint is of this run, or of the same one with another number of epochs."""
    try:
        model = checkpoint.load(path)
    except CheckpointError:
        return False
    same_recipe = {**model.metadata.get("training", {}), "epochs": recipe.epochs} == recipe.to_dict()
    return model.config == config and same_recipe


@dataclass(frozen=True)
class Stored:
    """A training run as its checkpoint describes it.

    Attributes:
        epochs: epochs done.
        snapshots: the number of snapshots that were asked for.
        best_epoch: the epoch that is kept; None if that is the last.
        extendable: whether the file has the training state.
    """

    config: CountingConfig
    recipe: Recipe
    epochs: int
    snapshots: int
    best_epoch: int | None
    extendable: bool


def stored_run(file: Checkpoint) -> Stored | None:
    """The run that a checkpoint belongs to; None if it belongs to none, or lacks the final accuracy."""
    state, metadata = file.training_state, file.model.metadata
    values = {} if state is None else state.values
    known = metadata.get("training") if state is None else values.get("recipe")
    try:
        recipe = Recipe(**known) if isinstance(known, dict) else None
    except (TypeError, ValueError):
        recipe = None
    if recipe is None:
        return None
    done = recipe.epochs if state is None else state.arrays["losses"].size if "losses" in state.arrays else 0
    if done >= recipe.epochs and not has_final_accuracy(file.model):
        return None
    snapshots, best = values.get("snapshots", 0), values.get("best_epoch")
    if not _is_count(snapshots) or not (best is None or (_is_count(best) and best <= done)):
        return None
    return Stored(file.model.config, recipe, done, snapshots, best, state is not None)


def reopen(path: Path, config: CountingConfig | None = None, recipe: Recipe | None = None) -> Run | None:
    """The run whose checkpoint is at `path`, as it was when that was written; None if it is finished.

    Args:
        config, recipe: expected of the run. Only `epochs` may differ: the run is extended, and ends with the bits of
            one that had as many from its start.

    Raises:
        CheckpointError: the file holds no run, another run, or a damaged one.
    """
    file = checkpoint.read(path)
    stored = stored_run(file)
    if stored is None:
        raise CheckpointError(path, "holds no training run; give another -o, or leave --resume out to replace it")
    recipe = recipe or stored.recipe
    for expected, actual in ((config, stored.config), (replace(recipe, epochs=stored.recipe.epochs), stored.recipe)):
        for name, value in asdict(expected).items() if expected is not None else ():
            if value != getattr(actual, name):
                difference = f"its {name} is {getattr(actual, name)!r}, not {value!r}"
                raise CheckpointError(
                    path, f"belongs to another run: {difference}; resume with the options it began with"
                )
    if stored.recipe == recipe and (file.training_state is None or stored.epochs == recipe.epochs):
        return None
    if stored.recipe != recipe:
        _check_extendable(path, stored, recipe.epochs)
    try:
        run = _restored(file, stored, recipe)
    except (InterpError, Refused) as error:
        raise CheckpointError(path, str(error)) from None
    run.selection = file.model.metadata.get("selection")
    return run


def _check_extendable(path: Path, stored: Stored, epochs: int) -> None:
    if not stored.extendable:
        raise CheckpointError(path, f"was written without its training state; train {epochs} epochs under another -o")
    if epochs < stored.epochs:
        raise CheckpointError(
            path, f"has {stored.epochs} epochs already; give more, or train {epochs} under another -o"
        )
    if stored.recipe.schedule != "constant":
        raise CheckpointError(
            path,
            f"has a learning rate that falls to 0 over its {stored.recipe.epochs} epochs ({stored.recipe.schedule}); "
            f"with {epochs} its first steps would have been others: train anew under another -o",
        )


def _restored(file: Checkpoint, stored: Stored, recipe: Recipe) -> Run:
    state, weights = file.training_state, file.model.state_dict()
    assert state is not None
    if stored.best_epoch is None:
        return Run(stored.config, recipe, weights, state)
    last = {n.removeprefix(LAST): torch.from_numpy(a.copy()) for n, a in state.arrays.items() if n.startswith(LAST)}
    check_shapes(last, stored.config)
    check_numbers({**weights, **{LAST + name: weight for name, weight in last.items()}})
    run = Run(stored.config, recipe, last, state)
    run.remember(weights, stored.best_epoch)
    return run


def has_final_accuracy(model: CountingTransformer) -> bool:
    """Whether the metadata are those of a finished run."""
    return {"training", "step", "accuracy", "best_accuracy"} <= model.metadata.keys()


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9
