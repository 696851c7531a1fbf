"""What a worker does: one job in, one outcome out. Nothing is written here; the coordinator alone writes."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interp.sweep.grid import Job


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        final, best: accuracy in percent after the last epoch, and of any epoch.
        losses, accuracies: epoch by epoch; accuracies in percent.
        seconds: wall time.
        checkpoint: the trained model as the bytes of a checkpoint file.
        error: why there is no result; None if there is one.
    """

    job: Job
    final: float = 0.0
    best: float = 0.0
    losses: tuple[float, ...] = ()
    accuracies: tuple[float, ...] = ()
    seconds: float = 0.0
    checkpoint: bytes = b""
    error: str | None = None


Runner = Callable[[Job], Outcome]


def train_job(job: Job) -> Outcome:
    """The published protocol for one job, on one thread."""
    import torch

    from models.training import Recipe, train

    torch.set_num_threads(1)
    recipe = Recipe(epochs=job.cell.epochs, sampler=job.cell.sampler)
    result = train(job.config(), recipe)
    with tempfile.TemporaryDirectory(prefix="interp-sweep-") as folder:
        path = Path(folder) / "model.pt"
        result.model.save(path)
        checkpoint = path.read_bytes()
    return Outcome(
        job,
        final=100 * result.final_accuracy,
        best=100 * result.best_accuracy,
        losses=result.losses,
        accuracies=tuple(100 * accuracy for accuracy in result.accuracies),
        seconds=result.seconds,
        checkpoint=checkpoint,
    )


def attempt(runner: Runner, job: Job) -> Outcome:
    """Run a job; whatever goes wrong in it is its outcome, and does not stop the others."""
    try:
        return runner(job)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(job, error=f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
