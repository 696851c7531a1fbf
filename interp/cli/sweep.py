"""`interp sweep`: train many models, find out how each counts, take the results out, compare with the published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from counting_interp.interp.sweep.worker import SECONDS
from counting_interp.util.outputs import check_output

if TYPE_CHECKING:
    from counting_interp.interp.jobs import Backend, Runner
    from counting_interp.interp.sweep.grid import Preset
    from counting_interp.interp.sweep.run import Summary

sweep = typer.Typer(no_args_is_help=True, help="Train a grid of models; resumable, parallel, reproducible.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the sweep.", show_default=False)]
Sources = Annotated[list[Path], typer.Argument(metavar="DIR|TABLE.csv", help="Sweeps' folders or exported tables.")]
Scheduler = Annotated[str | None, typer.Option(metavar="tcp://...", help="Use this dask scheduler's workers instead.")]
Seconds = Annotated[float, typer.Option("--time", min=0.1, help="Seconds that each proof may take.")]


class Keep(str, Enum):
    all = "all"
    none = "none"


def _presets() -> list[str]:
    from counting_interp.interp.sweep.grid import PRESETS

    return list(PRESETS)


@sweep.command()
def run(
    folder: Folder,
    preset: Annotated[
        str,
        typer.Option(
            help="Which experiment; `interp sweep presets` explains them.", autocompletion=opt.completing(_presets)
        ),
    ] = "quick",
    models: Annotated[str | None, typer.Option(metavar="LIST", help="Such as dot,bos+sftm.")] = None,
    d: Annotated[str | None, typer.Option("-d", "--d", metavar="LIST", help="Such as 8,16,32.")] = None,
    p: Annotated[str | None, typer.Option("-p", "--p", metavar="LIST", help="Such as 2,32.")] = None,
    T: Annotated[int | None, typer.Option("-T", help="Tokens in the alphabet.")] = None,
    L: Annotated[int | None, typer.Option("-L", help="Length of a sequence.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, max=opt.MAX_RUNS, help="Runs in each cell.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, max=opt.MAX_EPOCHS, help="Epochs of 10,000 sequences each.")
    ] = None,
    sampler: Annotated[str | None, typer.Option(help="published, paper or uniform.")] = None,
    axes: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=VALUE", help="Any other axis, as n_layers=2; repeatable.")
    ] = None,
    classify: Annotated[bool, typer.Option("--classify", help="Classify each run as it finishes.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Also say how much can be proved.")] = False,
    verify: Annotated[bool, typer.Option("--verify", hidden=True, callback=opt.renamed("--prove"))] = False,
    time: Seconds = SECONDS,
    known: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR|TABLE.csv", help="Leave out runs that this has, with verdict and proof if asked for."
        ),
    ] = None,
    keep: Annotated[Keep, typer.Option(help="Which checkpoints stay in the folder.")] = Keep.all,
    redo_missing: Annotated[bool, typer.Option("--redo-missing", help="Repeat runs whose checkpoint is gone.")] = False,
    repair: Annotated[bool, typer.Option("--repair", hidden=True, callback=opt.renamed("--redo-missing"))] = False,
    as_json: opt.Json = False,
    workers: opt.Workers = 2,
    scheduler: Scheduler = None,
) -> None:
    """Train every run of a grid that has no result yet. Stop it at any time; the same command resumes.

    Models, sizes, runs, epochs and sampler are the preset's unless they are given. Lists have commas between.
    """
    from counting_interp.interp.cli.sweep_progress import Reporter
    from counting_interp.interp.sweep.run import run_sweep
    from counting_interp.interp.sweep.table import missing, read_runs
    from counting_interp.interp.sweep.worker import PROOF, VERDICT, Measuring, TrainRun

    with usage_errors():
        sizes = [f"{axis}={value}" for axis, value in (("T", T), ("L", L)) if value is not None]
        asked = _preset(preset, models, d, p, runs, epochs, sampler, [*sizes, *(axes or ())]).jobs()
    kinds = (VERDICT,) * (classify or prove) + (PROOF,) * prove
    jobs = missing(asked, read_runs(*known or ()), kinds)
    runner = TrainRun(Measuring(kinds, time) if kinds else None, keep is Keep.all)
    with _interruptible(), progress_bar() as bar:
        backend = _backend(workers, scheduler, runner)
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
    prove: Annotated[
        bool, typer.Option("--prove", help="Also say which share of each model's cells can be proved right.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", hidden=True, callback=opt.renamed("--prove"))] = False,
    time: Seconds = SECONDS,
    again: Annotated[bool, typer.Option("--again", help="Also those that are classified already.")] = False,
    as_json: opt.Json = False,
    workers: opt.Workers = 2,
    scheduler: Scheduler = None,
) -> None:
    """Say of every finished run how its model counts. Stop it at any time; the same command resumes. The sweep itself
    may be running meanwhile. `interp sweep export` has the columns, `interp figures map` draws them."""
    from counting_interp.interp.cli.sweep_progress import Reporter, measured
    from counting_interp.interp.sweep.run import classify_sweep
    from counting_interp.interp.sweep.worker import PROOF, VERDICT, Measuring, measure_checkpoint

    measuring = Measuring((VERDICT, PROOF) if prove else (VERDICT,), time)
    with _interruptible(), progress_bar() as bar:
        backend = _backend(workers, scheduler, measure_checkpoint)
        reporter = Reporter(bar, backend.workers, measured, lambda cell: 1.0)
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


def _preset(
    name: str,
    models: str | None,
    d: str | None,
    p: str | None,
    runs: int | None,
    epochs: int | None,
    sampler: str | None,
    assignments: Sequence[str],
) -> Preset:
    """The preset with what the command line changes."""
    from dataclasses import replace

    from counting_interp.interp.sweep.grid import PRESETS

    if name not in PRESETS:
        raise ValueError(f"the preset must be one of {', '.join(PRESETS)}, got {name!r}")
    asked = {"models": _words(models), "d": _integers("d", d), "p": _integers("p", p), "runs": runs}
    changes: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    axes: dict[str, Any] = {}
    for assignment in assignments:
        axis, equals, value = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes AXIS=VALUE, got {assignment!r}")
        axes[axis.strip()] = value.strip()
    axes |= {axis: value for axis, value in (("epochs", epochs), ("sampler", sampler)) if value is not None}
    preset = PRESETS[name]
    return replace(preset, axes={**preset.axes, **axes}, **changes)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.replace(",", " ").split()


def _integers(name: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(f"--{name} takes integers separated by commas or blanks, got {text!r}") from error


def _backend(workers: int, scheduler: str | None, runner: Runner) -> Backend:
    from counting_interp.interp.jobs.local import LocalWorkers

    if scheduler is None:
        return LocalWorkers(workers, runner)
    from counting_interp.interp.jobs.cluster import Cluster

    return Cluster(scheduler, runner)


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
    from counting_interp.interp.sweep.grid import PRESETS

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
