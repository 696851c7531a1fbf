"""What a worker does: train a run, or measure how a trained model counts and how much of it can be proved.

Nothing is written here; the coordinator writes. A verdict has the columns of `Verdict.to_row()`, a proof these:

proof      certified in the dtype of its weights, refuted, undecided; or impossible, and the rest empty, for a block
           other than the paper's
share      of the cells (token, count; with `lin` mixing also position) that are proved right on every sequence
cells      how many there are
wrong      in how many of them a wrong sequence is known
counts     the largest count asked about: L - 1 where the training never showed L
precision  in which it is certified: that of its weights; missing in tables from before this was asked for
limit      seconds after which open cells were left
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counting_interp.interp.sweep.grid import SweepJob

if TYPE_CHECKING:
    from counting_interp.models import CountingTransformer


VERDICT, PROOF = "verdict", "proof"
SECONDS = 10.0  # of a proof: on a quiet core nearly all of the paper's sizes are decided before


@dataclass(frozen=True)
class Measuring:
    """What to measure.

    Attributes:
        kinds: of `VERDICT` and `PROOF`.
        seconds: that a proof may take, about.
    """

    kinds: tuple[str, ...] = (VERDICT,)
    seconds: float = SECONDS


@dataclass(frozen=True)
class Measurement:
    """Flat values by column, and the seconds they took."""

    row: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class MeasureTask:
    """A finished run whose checkpoint is to be measured."""

    job: SweepJob
    checkpoint: bytes
    measuring: Measuring

    @property
    def name(self) -> str:
        return self.job.name


def measure_checkpoint(task: MeasureTask) -> dict[str, Measurement]:
    """Read the model, as carefully as any untrusted file, and measure it, on one thread.

    Raises:
        CheckpointError: for a file that is refused, or that holds another model than the run's.
    """
    import torch

    from counting_interp.models.checkpoint import from_bytes
    from counting_interp.util.errors import CheckpointError

    torch.set_num_threads(1)
    model = from_bytes(task.checkpoint, f"{task.name}.pt").model
    if model.config != task.job.config():
        advice = "`interp sweep run --redo-missing` helps"
        raise CheckpointError(f"{task.name}.pt", f"holds another model than its run; {advice}")
    return measure_model(model, task.measuring)


def measure_model(model: CountingTransformer, measuring: Measuring) -> dict[str, Measurement]:
    """One measurement of each kind."""
    from counting_interp.interp.verdict import classify

    measurements = {}
    for kind in measuring.kinds:
        began = time.perf_counter()
        row = classify(model).to_row() if kind == VERDICT else _proof(model, measuring.seconds)
        measurements[kind] = Measurement(row, time.perf_counter() - began)
    return measurements


def _proof(model: CountingTransformer, seconds: float) -> dict[str, Any]:
    from counting_interp.interp.proof import Certificate, Counterexample, prove
    from counting_interp.probes.applicability import needs_paper_block

    if needs_paper_block(model.config):
        empty = ("share", "cells", "wrong", "margin", "counts", "precision", "limit")
        return {"proof": "impossible", **dict.fromkeys(empty)}
    outcome = prove(model, seconds, as_stored=True)
    return {
        "proof": outcome.verdict,
        "share": outcome.share,
        "cells": outcome.cells,
        "wrong": outcome.wrong_cells if isinstance(outcome, Counterexample) else 0,
        "margin": outcome.proved_margin if isinstance(outcome, Certificate) else None,
        "counts": outcome.counts,
        "precision": outcome.precision if isinstance(outcome, Certificate) else None,
        "limit": seconds,
    }


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        final, best: accuracy in percent after the last epoch, and of any epoch.
        losses, accuracies: epoch by epoch; accuracies in percent.
        seconds: wall time.
        checkpoint: the trained model as the bytes of a checkpoint file; empty if it is not to be kept.
        measured: measurements of the model, by kind, if they were asked for.
        complaint: why measuring failed.
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
        measuring: what to measure at once; None for nothing.
        keep: whether the checkpoint travels back. It does in any case where measuring failed.
    """

    measuring: Measuring | None = None
    keep: bool = True

    def __call__(self, job: SweepJob) -> TrainedRun:
        import torch

        from counting_interp.models.checkpoint import to_bytes
        from counting_interp.models.training import Recipe, train

        torch.set_num_threads(1)
        known = {field.name for field in dataclasses.fields(Recipe)}
        axes = {axis: value for axis, value in dataclasses.asdict(job.cell).items() if axis in known}
        began = time.perf_counter()
        run = train(job.config(), Recipe(**axes))
        seconds, model = time.perf_counter() - began, run.model()
        measured, complaint = self._measured(model)
        return TrainedRun(
            final=100 * run.accuracies[-1],
            best=100 * max(run.accuracies),
            losses=tuple(run.losses),
            accuracies=tuple(100 * accuracy for accuracy in run.accuracies),
            seconds=seconds,
            checkpoint=to_bytes(model) if self.keep or complaint else b"",
            measured=measured,
            complaint=complaint,
        )

    def _measured(self, model: CountingTransformer) -> tuple[dict[str, Measurement], str | None]:
        """The measurements, or why they failed: a failing measurement must not discard a finished training run."""
        try:
            return measure_model(model, self.measuring) if self.measuring else {}, None
        except Exception as error:
            return {}, f"{type(error).__name__}: {error}"
