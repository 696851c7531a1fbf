"""What a worker finds out about a finished run: the verdict on its mechanism, and how much of it can be proved.

The columns of a verdict are those of `Verdict.to_row()`; those of a proof:

proof    certified, refuted or undecided; impossible, and the rest empty, for a block that no proof is derived for
share    of the cells (token, count; with `lin` mixing also position) that are proved right on every sequence
cells    how many there are
wrong    in how many of them a wrong sequence is known
counts   the largest count asked about: L - 1 where the training never showed L
limit    seconds after which open cells were left
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counting_interp.interp.sweep.grid import SweepJob

if TYPE_CHECKING:
    from counting_interp.models import CountingTransformer

VERDICT, PROOF = "verdict", "proof"
SECONDS = 10.0  # of a proof: on a quiet core nearly all of the paper's sizes are decided before


@dataclass(frozen=True)
class Measuring:
    """What to find out.

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
    """A finished run whose checkpoint is to be looked at."""

    job: SweepJob
    checkpoint: bytes
    measuring: Measuring

    @property
    def name(self) -> str:
        return self.job.name


def measure_checkpoint(task: MeasureTask) -> dict[str, Measurement]:
    """Read the model, as carefully as any stranger's file, and measure it, on one thread."""
    import torch

    from counting_interp.models import CountingTransformer

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="interp-sweep-") as folder:
        path = Path(folder) / f"{task.name}.pt"
        path.write_bytes(task.checkpoint)
        model = CountingTransformer.load(path)
    if model.config != task.job.config():
        from counting_interp.util.errors import CheckpointError

        raise CheckpointError(f"{task.name}.pt", "holds another model than its run; `interp sweep run --repair` helps")
    return measure_model(model, task.measuring)


def measure_model(model: CountingTransformer, measuring: Measuring) -> dict[str, Measurement]:
    found = {}
    for kind in measuring.kinds:
        began = time.perf_counter()
        row = _MEASURES[kind](model, measuring)
        found[kind] = Measurement(row, time.perf_counter() - began)
    return found


def _verdict(model: CountingTransformer, measuring: Measuring) -> dict[str, Any]:
    from counting_interp.interp.verdict import classify

    return classify(model).to_row()


def _proof(model: CountingTransformer, measuring: Measuring) -> dict[str, Any]:
    from counting_interp.interp.proof import Certificate, Counterexample, certify
    from counting_interp.probes.applicability import needs_paper_block

    if needs_paper_block(model.config):
        return {"proof": "impossible", **dict.fromkeys(("share", "cells", "wrong", "margin", "counts", "limit"))}
    task, L = model.metadata.get("task"), model.config.L
    unseen = isinstance(task, dict) and task.get("sampler") == "published"
    found = certify(model, measuring.seconds, max_count=L - unseen)
    return {
        "proof": found.verdict,
        "share": found.share,
        "cells": found.cells,
        "wrong": found.wrong_cells if isinstance(found, Counterexample) else 0,
        "margin": found.proved_margin if isinstance(found, Certificate) else None,
        "counts": found.counts,
        "limit": measuring.seconds,
    }


_MEASURES: dict[str, Callable[[CountingTransformer, Measuring], dict[str, Any]]] = {VERDICT: _verdict, PROOF: _proof}
