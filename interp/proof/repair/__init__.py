"""Training against the proof: a trained model is changed until `prove` proves it.

    >>> from counting_interp.interp.proof.repair import Repair
    >>> run = Repair(model)
    >>> while not run.certified:
    ...     run.advance()
    >>> run.model()

`training` collects the sequences that are hardest for a model and trains on them in the compiled kernels. `run`
alternates that with proving. Here `repair_until` does so until there is a proof or the time is up, and keeps the run on
disk. The file that was asked for is written when there is a proof, and not before. The best model so far stands in
`NAME.unfinished.pt`, the certificate in `NAME.certificate.json`. docs/certificates.md has the numbers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting_interp.interp.proof.checker.check import check
from counting_interp.interp.proof.checker.weights import Refused, Unreadable
from counting_interp.interp.proof.repair.run import Progress, Repair, Round
from counting_interp.models import checkpoint
from counting_interp.models.checkpoint.safetensors import digest
from counting_interp.models.training.engine import VALIDATION_SEED
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util import errors
from counting_interp.util.errors import CheckpointError, printable
from counting_interp.util.files import write_atomically

INHERITED = ("task", "training", "seed", "step", "assumed")  # what a repaired model has from its parent's metadata
SAMPLE = {"n_sequences": 3000, "sampler": "paper"}


class Interrupted(Exception):  # noqa: N818 (an outcome, not an error)
    """The user stopped a repair; its best model is on disk."""

    def __init__(self, run: Repair, path: Path) -> None:
        super().__init__(f"interrupted after round {run.rounds[-1].number}; {unfinished(path)} can be resumed")


def repair_until(
    parent: CountingTransformer,
    output: Path | None,
    seconds: float,
    seed: int = 0,
    resume: bool = False,
    show: Callable[[str, float], None] = lambda stage, share: None,
    on_round: Callable[[Round], None] = lambda last: None,
) -> Repair | None:
    """Repair `parent` into the file `output`, round by round.

    Args:
        output: without it nothing is written, and an interruption loses the run.
        seconds: after which no round begins.
        resume: continue what was begun for `output`, if anything was.
        show: called with the stage of the work and the share of it that is done.
        on_round: called after each round.

    Returns:
        The run, certified or not; None if the certificate was there before.
    """
    until = time.monotonic() + seconds
    run: Repair | None = None

    def report(stage: str, share: float) -> None:
        show(stage + (f"  (best so far: {progress_line(run.best)})" if run else ""), share)

    resumed = output if output and resume and begun(output) else None
    run = reopen(parent, resumed, report) if resumed else Repair(parent, seed, report)
    if run is None:
        return None
    try:
        if output:
            write(run, output)
        while not run.certified and time.monotonic() < until:
            last = run.advance(until - time.monotonic())
            if output:
                write(run, output)
            on_round(last)
    except KeyboardInterrupt:
        if output is None:
            raise
        raise Interrupted(run, output) from None
    return run


def progress_line(last: Round) -> str:
    margin = "none" if last.margin is None else f"{last.margin:.3g}"
    return f"{last.proved} of {last.cells} cells proved, {last.wrong} wrong, smallest margin {margin}"


# --- on disk ----------------------------------------------------------------------------------------------------------


def unfinished(path: Path) -> Path:
    """Where a repair into `path` stands until there is a proof."""
    return path.with_name(f"{path.stem}.unfinished{path.suffix}")


def certificate_path(path: Path) -> Path:
    """Where the certificate of a model that was repaired into `path` stands."""
    return path.with_name(f"{path.stem}.certificate.json")


def begun(path: Path) -> bool:
    """Whether a repair into `path` was begun or finished before."""
    return path.exists() or unfinished(path).exists()


def reopen(parent: CountingTransformer, path: Path, progress: Progress | None = None) -> Repair | None:
    """The run that was to write `path`; None if it has come to its certificate, which is checked here.

    Raises:
        CheckpointError: if the file is not a repair of `parent`, cannot be resumed, or its certificate does not hold.
    """
    path = path if path.exists() else unfinished(path)
    stored = checkpoint.read(path)
    history = stored.model.metadata.get("repair")
    if not isinstance(history, dict):
        raise CheckpointError(path, "is not a repaired model; give another -o, or --overwrite to replace it")
    if history.get("parent") != fingerprint(parent):
        raise CheckpointError(path, "is a repair of another checkpoint; give another -o, or --overwrite to replace it")
    if stored.training_state is None:
        _check_certificate(path)
        return None
    try:
        return Repair(parent, progress=progress, resume=(stored.model, stored.training_state))
    except (KeyError, ValueError, errors.Refused) as error:
        raise CheckpointError(path, f"cannot be resumed ({printable(str(error))}); --overwrite begins anew") from None


def _check_certificate(path: Path) -> None:
    """Refuse a finished repair whose certificate does not hold: what a file says of itself proves nothing."""
    try:
        check(certificate_path(path), path)
    except (Refused, Unreadable) as error:
        reason = f"its certificate ({certificate_path(path).name}) does not hold ({printable(str(error))})"
        raise CheckpointError(path, f"{reason}; `interp prove` proves it anew, --overwrite begins again") from None


def write(run: Repair, path: Path, **facts: Any) -> CountingTransformer:
    """Write the best model as an ordinary checkpoint.

    Where it is proved, it goes to `path`, with its certificate beside it; else to `unfinished(path)`, with the state of
    the run.

    Args:
        facts: further entries of its history.

    Returns:
        The model, with its metadata.
    """
    model = run.model()
    model.metadata = {name: run.parent.metadata[name] for name in INHERITED if name in run.parent.metadata}
    sample = {name: run.parent.metadata.get("accuracy", SAMPLE).get(name, SAMPLE[name]) for name in SAMPLE}
    value = model.accuracy(n=sample["n_sequences"], sampler=sample["sampler"], seed=VALIDATION_SEED)
    model.metadata["accuracy"] = {"value": value, **sample}
    model.metadata["repair"] = history(run) | facts
    if not run.certified:
        checkpoint.save(model, unfinished(path), training_state=run.state())
        return model
    if run.document is not None:
        write_atomically(certificate_path(path), json.dumps(run.document, separators=(",", ":")).encode())
    checkpoint.save(model, path)
    unfinished(path).unlink(missing_ok=True)
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
        facts |= {
            "precision": proof.precision,
            "proved_margin": proof.proved_margin,
            "certificate": run.document["sha256"] if run.document else None,
        }
    return facts


def fingerprint(model: CountingTransformer) -> str:
    """The sha256 that a checkpoint of this model carries."""
    return digest({name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()})
