"""A repair from the command line: rounds until there is a proof or the time is up, each of them written to disk."""

from __future__ import annotations

import time
from pathlib import Path

from counting_interp.interp.console import progress_bar
from counting_interp.interp.repair import files
from counting_interp.interp.repair.run import Repair, Round
from counting_interp.models.transformer import CountingTransformer


class Interrupted(Exception):  # noqa: N818 (an outcome, not an error)
    """The user stopped a repair; what it came to is on disk."""

    def __init__(self, run: Repair, path: Path) -> None:
        super().__init__(f"interrupted after round {run.rounds[-1].number}; {path} can be resumed")


def pursue(parent: CountingTransformer, output: Path, seconds: float, seed: int, resume: bool) -> Repair | None:
    """The run, certified or not; None if the certificate was there before.

    Args:
        seconds: after which no round begins.
        resume: go on with what is at `output`, if anything is.
    """
    until = time.monotonic() + seconds
    run: Repair | None = None
    with progress_bar() as bar:
        task = bar.add_task("reading", total=1.0)

        def show(stage: str, share: float) -> None:
            known = f"  (best so far: {progress_line(run.best)})" if run else ""
            bar.update(task, description=stage + known, completed=share)

        run = files.reopen(parent, output, show) if resume and output.exists() else Repair(parent, seed, show)
        if run is None:
            return None
        try:
            files.write(run, output)
            while not run.certified and time.monotonic() < until:
                last = run.advance(until - time.monotonic())
                files.write(run, output)
                bar.console.print(f"round {last.number}: {progress_line(last)}", markup=False, highlight=False)
        except KeyboardInterrupt:
            raise Interrupted(run, output) from None
    return run


def progress_line(last: Round) -> str:
    margin = "none" if last.margin is None else f"{last.margin:.3g}"
    return f"{last.proved} of {last.cells} cells proved, {last.wrong} wrong, smallest margin {margin}"
