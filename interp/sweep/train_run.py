"""What a worker does with a job: train it, and say how it went. Nothing is written here; the coordinator writes."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counting_interp.interp.sweep.grid import SweepJob
from counting_interp.interp.sweep.measure_run import Measurement, Measuring, measure_model


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        final, best: accuracy in percent after the last epoch, and of any epoch.
        losses, accuracies: epoch by epoch; accuracies in percent.
        seconds: wall time.
        checkpoint: the trained model as the bytes of a checkpoint file; empty if it is not to be kept.
        measured: what was found out about the model, by kind, if that was asked for.
        complaint: why it was not found out.
    """

    final: float
    best: float
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    seconds: float
    checkpoint: bytes = b""
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    complaint: str | None = None


@dataclass(frozen=True)
class TrainRun:
    """Trains a job by the published protocol, on one thread.

    Attributes:
        measuring: what to find out about the model at once; None for nothing.
        keep: whether the checkpoint travels back. It does in any case where measuring failed.
    """

    measuring: Measuring | None = None
    keep: bool = True

    def __call__(self, job: SweepJob) -> TrainedRun:
        import torch

        from counting_interp.models.training import Recipe, train

        torch.set_num_threads(1)
        known = {field.name for field in dataclasses.fields(Recipe)}
        axes = {axis: value for axis, value in dataclasses.asdict(job.cell).items() if axis in known}
        result = train(job.config(), Recipe(**axes))
        measured, complaint = self._measured(result.model)
        return TrainedRun(
            final=100 * result.final_accuracy,
            best=100 * result.best_accuracy,
            losses=result.losses,
            accuracies=tuple(100 * accuracy for accuracy in result.accuracies),
            seconds=result.seconds,
            checkpoint=_file(result.model) if self.keep or complaint else b"",
            measured=measured,
            complaint=complaint,
        )

    def _measured(self, model: Any) -> tuple[dict[str, Measurement], str | None]:
        """The measurements, or why there are none: hours of training are not lost to a question about their end."""
        if self.measuring is None:
            return {}, None
        try:
            return measure_model(model, self.measuring), None
        except Exception as error:
            return {}, f"{type(error).__name__}: {error}"


def _file(model: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="interp-sweep-") as folder:
        path = Path(folder) / "model.pt"
        model.save(path)
        return path.read_bytes()
