"""Runners that take the place of training: instant, or stuck until somebody kills them."""

from __future__ import annotations

import dataclasses
import os
import signal
import tempfile
from pathlib import Path

from counting_interp.interp.sweep.grid import SweepCell, SweepJob
from counting_interp.interp.sweep.worker import VERDICT, Measurement, MeasureTask, TrainedRun

FOLDER = "SWEEP_TEST_FOLDER"  # environment variable: where runners leave their marks
STUCK = "SWEEP_TEST_STUCK"  # environment variable: the name of the job that gets stuck the first time it is run


def jobs(n: int = 6, **cell) -> list[SweepJob]:
    """`n` jobs: cells with growing p, two runs each."""
    sizes = {"T": 5, "L": 3, "d": 2, "epochs": 2, **cell}
    return [SweepJob(SweepCell("dot", p=1 + index // 2, **sizes), index % 2) for index in range(n)]


def instant(job: SweepJob) -> TrainedRun:
    """A result made of the job's seed alone."""
    share = job.seed % 1000 / 10
    curve = (share / 2, share)
    return TrainedRun(share, share, (1.0, 0.5), curve, 0.25, f"weights of {job.name}".encode())


def marked(job: SweepJob) -> TrainedRun:
    """As `instant`; one line in the marks for each time it runs, and one with the process that ran it in the makers."""
    folder = Path(os.environ[FOLDER])
    with (folder / "marks").open("a") as marks, (folder / "makers").open("a") as makers:
        marks.write(f"{job.name}\n")
        makers.write(f"{job.name} {os.getpid()}\n")
    return instant(job)


def stuck_once(job: SweepJob) -> TrainedRun:
    """As `marked`, but the job named in the environment leaves its process id and waits to be killed, once."""
    if job.name == os.environ[STUCK]:
        mark = Path(os.environ[FOLDER]) / "stuck"
        if not mark.exists():
            temporary = mark.with_suffix(".tmp")
            temporary.write_text(str(os.getpid()))
            temporary.rename(mark)
            while True:
                signal.pause()
    return marked(job)


def deadly(job: SweepJob) -> TrainedRun:
    """A run that takes its process with it, if it is the one named in the environment."""
    if job.name == os.environ[STUCK]:
        os.kill(os.getpid(), signal.SIGKILL)
    return marked(job)


def broken(job: SweepJob) -> TrainedRun:
    """A run that fails in the second cell and works in the others."""
    if job.cell.p == 2:
        raise FloatingPointError("the loss is not finite")
    return instant(job)


def untrained(job: SweepJob) -> TrainedRun:
    """As `instant`, with the checkpoint of a real model that has learned nothing."""
    from counting_interp.models import CountingTransformer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        model = CountingTransformer(job.config())
        model.metadata["task"] = {"sampler": job.cell.sampler, "T": job.cell.T, "L": job.cell.L}
        model.save(path)
        return dataclasses.replace(instant(job), checkpoint=path.read_bytes())


def judged(task: MeasureTask) -> dict[str, Measurement]:
    """What is asked for, made of the seed alone; one line in the marks for each time it runs."""
    marked(task.job)
    label = ("RC", "IC", "mixed", "unsolved")[task.job.seed % 4]
    return {kind: Measurement({"label" if kind == VERDICT else "share": label}, 0.5) for kind in task.measuring.kinds}


def judged_stuck_once(task: MeasureTask) -> dict[str, Measurement]:
    """As `judged`, but stuck the first time at the job that is named in the environment."""
    if task.name == os.environ[STUCK]:
        stuck_once(task.job)
    return judged(task)
