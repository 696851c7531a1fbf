"""`interp sweep`: train many models, find out how each counts, take the results out, compare with the published."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import console
from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import (
    FAILED,
    is_an_interruption,
    print_json,
    progress_bar,
    stop_signals,
    usage_errors,
    warn,
)
from counting_interp.interp.sweep.grid import PRESETS, SweepCell, SweepJob, cost, seconds_left
from counting_interp.interp.sweep.worker import PROOF, SECONDS, VERDICT, Measurement, Measuring, TrainedRun, TrainRun
from counting_interp.util.errors import printable
from counting_interp.util.files import check_output
from counting_interp.util.text import duration

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from counting_interp.interp.jobs import Attempt, Backend, Runner
    from counting_interp.interp.sweep.run import Summary

sweep = typer.Typer(no_args_is_help=True, help="Train a grid of models; resumable, parallel, reproducible.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the sweep.", show_default=False)]
Sources = Annotated[list[Path], typer.Argument(metavar="DIR|TABLE.csv", help="Sweeps' folders or exported tables.")]
Seconds = Annotated[float, typer.Option("--time", min=0.1, help="Seconds that each proof may take.")]
Prove = Annotated[bool, typer.Option("--prove", help="Also say which share of each model's cells can be proved right.")]
SECONDS_BETWEEN_LINES = 60.0  # where standard error is not a terminal


class Keep(str, Enum):
    all = "all"
    none = "none"


@dataclass(frozen=True)
class Workers:
    """Options of commands that work in parallel."""

    workers: Annotated[
        int, typer.Option("--workers", min=1, max=opt.MAX_PROCESSES, help="Processes on this machine, one thread each.")
    ] = 2
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://...", help="Use this dask scheduler's workers instead.")
    ] = None

    def backend(self, runner: Runner) -> Backend:
        from counting_interp.interp.jobs import Cluster, LocalWorkers

        return LocalWorkers(self.workers, runner) if self.scheduler is None else Cluster(self.scheduler, runner)


@dataclass(frozen=True)
class Grid:
    """Options that say which runs there are: a preset, and what differs from it."""

    preset: Annotated[
        str,
        typer.Option(
            help="Which experiment; `interp sweep presets` explains them.",
            autocompletion=opt.completing(lambda: PRESETS),
        ),
    ] = "quick"
    models: Annotated[str | None, typer.Option(metavar="LIST", help="Such as dot,bos+sftm.")] = None
    d: Annotated[str | None, typer.Option("-d", "--d", metavar="LIST", help="Such as 8,16,32.")] = None
    p: Annotated[str | None, typer.Option("-p", "--p", metavar="LIST", help="Such as 2,32.")] = None
    T: Annotated[int | None, typer.Option("-T", help="Tokens in the alphabet.")] = None
    L: Annotated[int | None, typer.Option("-L", help="Length of a sequence.")] = None
    runs: Annotated[int | None, typer.Option(min=1, max=opt.MAX_RUNS, help="Runs in each cell.")] = None
    epochs: Annotated[int | None, typer.Option(min=1, max=opt.MAX_EPOCHS, help="Epochs of 10,000 sequences each.")] = (
        None
    )
    sampler: Annotated[str | None, typer.Option(help="published, paper or uniform.")] = None
    axes: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=VALUE", help="Any other axis, as n_layers=2; repeatable.")
    ] = None

    def jobs(self) -> list[SweepJob]:
        """Every run of the grid. Raises ValueError for what no sweep can have."""
        if self.preset not in PRESETS:
            raise ValueError(f"the preset must be one of {', '.join(PRESETS)}, got {self.preset!r}")
        models = None if self.models is None else self.models.replace(",", " ").split()
        lists = {"models": models, "d": _integers("d", self.d), "p": _integers("p", self.p), "runs": self.runs}
        axes: dict[str, Any] = {}
        for assignment in self.axes or ():
            axis, equals, value = assignment.partition("=")
            if not equals:
                raise ValueError(f"--set takes AXIS=VALUE, got {assignment!r}")
            axes[axis.strip()] = value.strip()
        sizes = {axis: getattr(self, axis) for axis in ("T", "L", "epochs", "sampler")}
        axes |= {axis: value for axis, value in sizes.items() if value is not None}
        changes: dict[str, Any] = {name: value for name, value in lists.items() if value is not None}
        preset = PRESETS[self.preset]
        return replace(preset, axes={**preset.axes, **axes}, **changes).jobs()


def _integers(name: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(f"--{name} takes integers separated by commas or blanks, got {text!r}") from error


@sweep.command()
def run(
    folder: Folder,
    *,
    grid: Grid,
    classify: Annotated[bool, typer.Option("--classify", help="Classify each run as it finishes.")] = False,
    prove: Prove = False,
    time: Seconds = SECONDS,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR|TABLE.csv", help="Leave out runs that this has, with verdict and proof if asked for."
        ),
    ] = None,
    keep: Annotated[Keep, typer.Option(help="Which checkpoints stay in the folder.")] = Keep.all,
    redo_missing: Annotated[bool, typer.Option("--redo-missing", help="Repeat runs whose checkpoint is gone.")] = False,
    as_json: opt.Json = False,
    workers: Workers,
) -> None:
    """Train every run of a grid that has no result yet. Stop it at any time; the same command resumes.

    Models, sizes, runs, epochs and sampler are the preset's unless they are given. Lists have commas between.
    """
    from counting_interp.interp.sweep.run import run_sweep
    from counting_interp.interp.sweep.table import missing, read_runs

    with usage_errors():
        asked = grid.jobs()
    kinds = (VERDICT,) * (classify or prove) + (PROOF,) * prove
    jobs = missing(asked, read_runs(*known or ()), kinds)
    runner = TrainRun(Measuring(kinds, time) if kinds else None, keep is Keep.all)
    with _interruptible(), progress_bar() as bar:
        backend = workers.backend(runner)
        reporter = Reporter(bar, backend.workers)
        summary = run_sweep(
            folder, jobs, backend, reporter.begin, reporter.report, redo_missing=redo_missing, classify=bool(kinds)
        )
    elsewhere = f"; {len(asked) - len(jobs)} more are known elsewhere" if known else ""
    done = len(summary.before) + len(summary.now)
    if as_json:
        print_json([_counts(folder, len(jobs), summary) | {"known_elsewhere": len(asked) - len(jobs)}])
    else:
        typer.echo(f"{done} of {len(jobs)} runs have a result in {folder}{elsewhere}")
    if summary.lost:
        warn(f"{len(summary.lost)} checkpoints are gone; --redo-missing makes their runs again")
    _fail_if_any(summary)


@sweep.command("classify")
def classify_runs(
    folder: Folder,
    *,
    prove: Prove = False,
    time: Seconds = SECONDS,
    again: Annotated[bool, typer.Option("--again", help="Also those that are classified already.")] = False,
    as_json: opt.Json = False,
    workers: Workers,
) -> None:
    """Say of every finished run how its model counts. Stop it at any time; the same command resumes. The sweep itself
    may be running meanwhile. `interp sweep export` has the columns, `interp figures map` draws them."""
    from counting_interp.interp.sweep.run import classify_sweep
    from counting_interp.interp.sweep.worker import measure_checkpoint

    measuring = Measuring((VERDICT, PROOF) if prove else (VERDICT,), time)
    with _interruptible(), progress_bar() as bar:
        backend = workers.backend(measure_checkpoint)
        reporter = Reporter(bar, backend.workers, _measured, lambda cell: 1.0)
        summary = classify_sweep(folder, backend, measuring, reporter.begin, reporter.report, again=again)
    total = len(summary.before) + len(summary.now) + len(summary.failed) + len(summary.lost)
    done = len(summary.before) + len(summary.now)
    if as_json:
        print_json([_counts(folder, total, summary)])
    else:
        typer.echo(f"{done} of {total} finished runs are classified in {folder}")
    if summary.lost:
        warn(
            f"{len(summary.lost)} runs have no checkpoint to look at; `interp sweep run --redo-missing` makes those "
            "again that were to be kept"
        )
    _fail_if_any(summary)


@sweep.command()
def rescue(folder: Folder) -> None:
    """Save what can still be read of a damaged sweep; the damaged file is kept beside the new one."""
    from counting_interp.interp.sweep.store import rescue as save

    done = save(folder)
    kept = ", ".join(f"{number} {table}" for table, number in done.kept.items())
    typer.echo(f"kept {kept}; the damaged file is {done.damaged}; `interp sweep run` makes the missing runs again")


@contextmanager
def _interruptible() -> Iterator[None]:
    """The first request to stop ends workers and coordinator cleanly; while that is done, further ones are ignored."""
    requests: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        if len(requests) == 1:
            raise KeyboardInterrupt

    try:
        with stop_signals(stop):
            yield
    except BaseException as error:
        if is_an_interruption(error):
            warn("finished runs are kept; the same command resumes where this one stopped")
        raise


def _counts(folder: Path, total: int, summary: Summary) -> dict[str, Any]:
    kinds = ("before", "now", "failed", "lost")
    return {"folder": str(folder), "runs": total, **{kind: len(getattr(summary, kind)) for kind in kinds}}


def _fail_if_any(summary: Summary) -> None:
    if summary.failed:
        warn(f"{len(summary.failed)} runs failed; the same command tries them again")
        raise typer.Exit(FAILED)


@sweep.command()
def presets(as_json: opt.Json = False) -> None:
    """Say what each preset trains."""
    if as_json:
        print_json([{"name": name, "runs": len(each.jobs()), "shows": each.shows} for name, each in PRESETS.items()])
        return
    for name, preset in PRESETS.items():
        typer.echo(f"{name:12} {len(preset.jobs()):5} runs  {preset.shows}")


@sweep.command()
def status(folder: Folder, as_json: opt.Json = False) -> None:
    """Say how far a sweep is, also while it runs."""
    from counting_interp.interp.sweep.run import read_status, status_lines

    result = read_status(folder)
    if as_json:
        print_json([group.to_dict() for group in result])
    else:
        typer.echo("\n".join(status_lines(result)))


@sweep.command()
def export(
    sources: Sources,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A file, instead of standard output.")] = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Write the finished runs as one CSV table, a row each: axes, budget, sampler, accuracy, verdict, version."""
    from counting_interp.interp.sweep.table import COLUMNS, read_runs, write_runs
    from counting_interp.util.files import is_replaceable, write_atomically

    if output is not None:
        check_output(output, sources, overwrite, ours=lambda head: head.startswith(",".join(COLUMNS).encode()))
    runs = read_runs(*sources)
    text = write_runs(runs)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())
        if is_replaceable(output):
            typer.echo(f"{output}: {len(runs)} runs")


@sweep.command()
def compare(
    sources: Sources,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="TABLE.csv", help="By default what was published for T=32, L=10."),
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the largest deviations to list.")] = 10,
    as_json: opt.Json = False,
) -> None:
    """Compare cell by cell with the published numbers, within the tolerance that both sides' scatter allows."""
    from counting_interp.interp.sweep.compare import compare_cells, comparison_lines, read_reference
    from counting_interp.interp.sweep.statistics import by_cell
    from counting_interp.interp.sweep.table import read_runs

    result = compare_cells(by_cell(read_runs(*sources)), read_reference(reference))
    if as_json:
        cells = [cell.to_dict() for cell in result.cells]
        print_json(cells, summary=result.summary(), warnings=list(result.warnings))
    else:
        typer.echo("\n".join(comparison_lines(result, worst)))


# --- progress ---------------------------------------------------------------------------------------------------------


def _trained(run: TrainedRun) -> tuple[str, float]:
    """A result in words, and the seconds that it took."""
    return f"{run.final:.2f} %" + (f", not classified ({run.complaint})" if run.complaint else ""), run.seconds


def _measured(measurements: Mapping[str, Measurement]) -> tuple[str, float]:
    found = measurements.values()
    first = [
        str(value) for each in found for value in islice(each.row.values(), 1)
    ]  # the label; the outcome of a proof
    return ", ".join(first), sum(each.seconds for each in found)


@dataclass
class Reporter:
    """Reports each attempt: a bar on a terminal; elsewhere a plain line now and then, and one at the end.

    Attributes:
        words: a result in words, and the seconds that it took.
        cost: of a cell, in any unit.
    """

    bar: Progress
    workers: int
    words: Callable[[Any], tuple[str, float]] = _trained
    cost: Callable[[SweepCell], float] = cost
    clock: Callable[[], float] = time.monotonic

    def begin(self, done: Sequence[SweepJob], left: Sequence[SweepJob]) -> None:
        self._total = len(done) + len(left)
        self._left = {job.name: job.cell for job in left}
        self._runs_left = Counter(job.cell for job in left)
        self._spent: list[tuple[SweepCell, float]] = []
        self._said = self.clock()
        costs = sum(self.cost(job.cell) for job in left)
        self._task: TaskID = self.bar.add_task(f"{len(done)} of {self._total} runs", total=costs)
        if self.bar.disable and not console.quiet:
            warn(f"{len(done)} of {self._total} runs are done, {len(left)} left, {self.workers} at a time")

    def report(self, attempt: Attempt) -> None:
        job: SweepJob = attempt.task.job
        del self._left[job.name]
        self._runs_left[job.cell] -= 1
        words = "failed"
        if attempt.error is None:
            words, seconds = self.words(attempt.result)
            self._spent.append((job.cell, seconds))
        else:
            warn(f"{job.name} failed: {printable(attempt.error, 500)}")
        line = self._line(job, words)
        self.bar.update(self._task, advance=self.cost(job.cell), description=line)
        silent = console.quiet or not self.bar.disable
        if not silent and (self.clock() - self._said >= SECONDS_BETWEEN_LINES or not self._left):
            self._said = self.clock()
            warn(line)

    def _line(self, job: SweepJob, words: str) -> str:
        cell_left = [job.cell] * self._runs_left[job.cell]
        parts = [f"{self._total - len(self._left)} of {self._total} runs"]
        here = f"{job.cell.label} run {job.run}: {words}"
        if cell_left and self._spent:
            here += f", {len(cell_left)} left (about {duration(self._seconds(cell_left, 1) or 0)})"
        parts.append(here)
        remaining = self._seconds(list(self._left.values()), self.workers)
        if remaining is not None and self._left:
            parts.append(f"all in about {duration(remaining)}")
        return " · ".join(parts)

    def _seconds(self, left: Sequence[SweepCell], workers: int) -> float | None:
        return seconds_left(self._spent, left, workers, self.cost)
