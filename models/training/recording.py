"""A run on disk: one checkpoint that always loads and can be gone on with, and snapshots of the way.

The checkpoint of an unfinished run carries its training state; that of a finished one is a plain model. Every write
replaces the file at once, so a kill at any moment leaves the last state or the one before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from models import checkpoint
from models.config import CountingConfig
from models.errors import CheckpointError, InterpError
from models.training.early import first_steps, snapshot_steps
from models.training.recipe import Recipe
from models.training.run import Run
from models.transformer import CountingTransformer


@dataclass
class Recorder:
    """Writes the checkpoint of a run when it is due.

    Args:
        path: of the checkpoint.
        every: seconds between two checkpoints; 0 writes one after every epoch.
        snapshots: how many states of the run to keep, log-spaced over its steps; see `early` and `snapshot_path`.
    """

    path: Path
    every: float = 10.0
    snapshots: int = 0
    _written: float = field(default_factory=time.monotonic)

    def record(self, run: Run) -> None:
        """After an epoch (and before the first): a snapshot first, so that a checkpoint never claims one too many."""
        for model in self._snapshots(run):
            snapshot = snapshot_path(self.path, model.metadata["step"], run.recipe.epochs * run.recipe.steps_per_epoch)
            snapshot.parent.mkdir(exist_ok=True)
            checkpoint.save(model, snapshot)
        if run.epoch and (run.finished or time.monotonic() - self._written >= self.every):
            self.write(run)

    def _snapshots(self, run: Run) -> Iterable[CountingTransformer]:
        """Those due now; all of the first epoch before it begins."""
        due = snapshot_steps(run.recipe, self.snapshots) if self.snapshots else []
        if run.epoch:
            return [run.model()] if run.step in due else []
        return first_steps(run, [step for step in due if step < run.recipe.steps_per_epoch])

    def write(self, run: Run) -> None:
        checkpoint.save(run.model(), self.path, training_state=None if run.finished else run.state())
        self._written = time.monotonic()


def snapshot_path(path: Path, step: int, steps: int) -> Path:
    """`ckpt.snapshots/step-000313.pt` for `ckpt.pt`: sorted by name is sorted by step."""
    return path.with_suffix(".snapshots") / f"step-{step:0{len(str(steps))}d}{path.suffix or '.pt'}"


def reopen(path: Path, config: CountingConfig | None = None, recipe: Recipe | None = None) -> Run | None:
    """The run whose checkpoint is at `path`, as it was when that was written; None if the run is finished.

    Args:
        config, recipe: what the run is expected to be; a difference is an error that names it.
    """
    found = checkpoint.read(path)
    known = found.training_state.values.get("recipe") if found.training_state else found.model.metadata.get("training")
    try:
        stored = Recipe(**known) if isinstance(known, dict) else None
    except (TypeError, ValueError):
        stored = None
    if stored is None or (found.training_state is None and not says_how_it_ended(found.model)):
        raise CheckpointError(path, "holds no training run; give another -o, or leave --resume out to replace it")
    for expected, actual in ((config, found.model.config), (recipe, stored)):
        if expected is not None and expected != actual:
            difference = _first_difference(asdict(expected), asdict(actual))
            raise CheckpointError(path, f"belongs to another run: {difference}; resume with the options it began with")
    if found.training_state is None:
        return None
    try:
        return Run(found.model.config, stored, found.model.state_dict(), found.training_state)
    except InterpError as error:
        raise CheckpointError(path, str(error)) from None


def says_how_it_ended(model: CountingTransformer) -> bool:
    """Whether the metadata have what a finished run leaves in them."""
    return {"training", "step", "accuracy", "best_accuracy"} <= model.metadata.keys()


def _first_difference(expected: dict[str, Any], actual: dict[str, Any]) -> str:
    name = next(name for name in expected if expected[name] != actual[name])
    return f"its {name} is {actual[name]!r}, not {expected[name]!r}"
