"""A repair on disk: the best model so far, with what is needed to go on until there is a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counting_interp.interp.proof.repair.run import Progress, Repair
from counting_interp.models import checkpoint
from counting_interp.models.checkpoint.safetensors import digest
from counting_interp.models.training.engine import VALIDATION_SEED
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import CheckpointError

INHERITED = ("task", "training", "seed", "step", "assumed")  # what a repaired model has from its parent's metadata
SAMPLE = {"n_sequences": 3000, "sampler": "paper"}


def reopen(parent: CountingTransformer, path: Path, progress: Progress | None = None) -> Repair | None:
    """The run whose checkpoint is at `path`; None if it has come to its certificate."""
    found = checkpoint.read(path)
    history = found.model.metadata.get("repair")
    if not isinstance(history, dict):
        raise CheckpointError(path, "is not a repaired model; give another -o, or --overwrite to replace it")
    if history.get("parent") != fingerprint(parent):
        raise CheckpointError(
            path, "is the repair of another checkpoint; give another -o, or --overwrite to replace it"
        )
    if found.training_state is None:
        return None
    try:
        return Repair(parent, progress=progress, resume=(found.model, found.training_state))
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(path, "cannot be gone on with; --overwrite begins anew") from None


def write(run: Repair, path: Path, **facts: Any) -> CountingTransformer:
    """The best model as an ordinary checkpoint, which carries the state of the run until there is a certificate.

    Args:
        facts: further entries of its history.
    """
    model = run.model()
    model.metadata = {name: run.parent.metadata[name] for name in INHERITED if name in run.parent.metadata}
    sample = {name: run.parent.metadata.get("accuracy", SAMPLE).get(name, SAMPLE[name]) for name in SAMPLE}
    value = model.accuracy(n=sample["n_sequences"], sampler=sample["sampler"], seed=VALIDATION_SEED)
    model.metadata["accuracy"] = {"value": value, **sample}
    model.metadata["repair"] = history(run) | facts
    checkpoint.save(model, path, training_state=None if run.certified else run.state())
    return model


def history(run: Repair) -> dict[str, Any]:
    """Where a repaired model comes from, and what is known about it."""
    best, last, proof = run.best, run.rounds[-1], run.certificate
    facts: dict[str, Any] = {
        "parent": fingerprint(run.parent),
        "rounds": last.number,
        "steps": last.steps,
        "seconds": round(last.seconds, 1),
        "seed": run.seed,
        "verdict": best.verdict,
        "proved_cells": best.proved,
        "cells": best.cells,
        "wrong_cells": best.wrong,
        "margin": best.margin,
    }
    if proof is not None:
        facts |= {"precision": proof.precision, "proved_margin": proof.proved_margin, "certificate": run.seal}
    return facts


def fingerprint(model: CountingTransformer) -> str:
    """The sha256 that a checkpoint of this model carries."""
    return digest({name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()})
