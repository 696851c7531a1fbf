"""Training against the proof: a trained model is changed until `prove` proves it.

    >>> from counting_interp.interp.proof.repair import Repair
    >>> run = Repair(model)
    >>> while not run.certified:
    ...     run.advance()
    >>> run.model()

`training` collects the sequences that are hardest for a model and trains on them in the compiled kernels. `run`
alternates that with proving, and `files` keeps a run on disk. `repair_until` does all of it until there is a proof or
the time is up. docs/certificates.md has the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from counting_interp.interp.proof.repair import files
from counting_interp.interp.proof.repair.run import Repair, Round
from counting_interp.models.transformer import CountingTransformer

__all__ = ["Interrupted", "Repair", "Round", "progress_line", "repair_until"]


class Interrupted(Exception):  # noqa: N818 (an outcome, not an error)
    """The user stopped a repair; what it came to is on disk."""

    def __init__(self, run: Repair, path: Path) -> None:
        super().__init__(f"interrupted after round {run.rounds[-1].number}; {files.unfinished(path)} can be resumed")


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

    begun = output is not None and resume and files.begun(output)
    run = files.reopen(parent, output, report) if output and begun else Repair(parent, seed, report)
    if run is None:
        return None
    try:
        if output:
            files.write(run, output)
        while not run.certified and time.monotonic() < until:
            last = run.advance(until - time.monotonic())
            if output:
                files.write(run, output)
            on_round(last)
    except KeyboardInterrupt:
        if output is None:
            raise
        raise Interrupted(run, output) from None
    return run


def progress_line(last: Round) -> str:
    margin = "none" if last.margin is None else f"{last.margin:.3g}"
    return f"{last.proved} of {last.cells} cells proved, {last.wrong} wrong, smallest margin {margin}"
