"""`interp sweep`: train many models, see how far it is, take the results out, compare them with the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interp.console import FAILED, complain, print_json, usage_errors

if TYPE_CHECKING:
    from interp.sweep.presets import Preset

sweeps = typer.Typer(no_args_is_help=True, help="Train a grid of models; resumable, parallel, reproducible.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the sweep.", show_default=False)]
Source = Annotated[Path, typer.Argument(metavar="DIR|TABLE.csv", help="A sweep's folder or an exported table.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Words = Annotated[str | None, typer.Option(metavar="LIST", help="Separated by commas or blanks; of the preset.")]


def register(app: typer.Typer) -> None:
    app.add_typer(sweeps, name="sweep")


@sweeps.command()
def run(
    folder: Folder,
    preset: Annotated[str, typer.Option(help="Which experiment; `interp sweep presets` explains them.")] = "quick",
    models: Words = None,
    d: Words = None,
    p: Words = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs per cell; of the preset.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of 10,000 sequences each; of the preset.")] = None,
    sampler: Annotated[str, typer.Option(help="published, paper or uniform.")] = "published",
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine, one thread each.")] = 2,
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://...", help="Use this dask scheduler's workers instead.")
    ] = None,
) -> None:
    """Train every run of a grid that has no result yet. Stop it at any time; the same command goes on."""
    from interp.sweep.coordinator import Backend, run_sweep
    from interp.sweep.local import LocalWorkers
    from interp.sweep.progress import reporting

    with usage_errors():
        jobs = _preset(preset, models, d, p, runs, epochs, sampler).jobs()
    backend: Backend
    if scheduler is None:
        backend = LocalWorkers(workers)
    else:
        from interp.sweep.cluster import Cluster

        backend = Cluster(scheduler)
    _end_by_sigterm_as_by_ctrl_c()
    try:
        with reporting(backend.workers) as reporter:
            summary = run_sweep(folder, jobs, backend, reporter.begin, reporter.report)
    except KeyboardInterrupt:
        complain("finished runs are kept; the same command goes on where this one stopped")
        raise
    typer.echo(f"{len(summary.before) + len(summary.now)} of {len(jobs)} runs have a result in {folder}")
    if summary.failed:
        complain(f"{len(summary.failed)} runs failed; the same command tries them again")
        raise typer.Exit(FAILED)


def _preset(
    name: str,
    models: str | None,
    d: str | None,
    p: str | None,
    runs: int | None,
    epochs: int | None,
    sampler: str,
) -> Preset:
    """The preset with what the command line changes."""
    from dataclasses import replace

    from interp.sweep.presets import PRESETS
    from models.task import SAMPLERS

    if name not in PRESETS:
        raise ValueError(f"the preset must be one of {', '.join(PRESETS)}, got {name!r}")
    if sampler not in SAMPLERS:
        raise ValueError(f"the sampler must be one of {', '.join(SAMPLERS)}, got {sampler!r}")
    asked = {"models": _words(models), "d": _integers("d", d), "p": _integers("p", p), "runs": runs, "epochs": epochs}
    changes: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    return replace(PRESETS[name], sampler=sampler, **changes)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.replace(",", " ").split()


def _integers(name: str, text: str | None) -> list[int] | None:
    try:
        return None if text is None else [int(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(f"--{name} takes integers separated by commas or blanks, got {text!r}") from error


def _end_by_sigterm_as_by_ctrl_c() -> None:
    """Cluster managers stop a job by SIGTERM: workers are to be ended cleanly then, too."""
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)


@sweeps.command()
def presets() -> None:
    """Say what each preset trains."""
    from interp.sweep.presets import PRESETS

    for name, preset in PRESETS.items():
        typer.echo(f"{name:12} {len(preset.jobs()):5} runs  {preset.shows}")


@sweeps.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how far a sweep is, also while it runs."""
    from interp.sweep.status import read_status, status_lines

    result = read_status(folder)
    if as_json:
        print_json([group.to_dict() for group in result])
    else:
        typer.echo("\n".join(status_lines(result)))


@sweeps.command()
def export(
    source: Source,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Instead of standard output.")] = None,
) -> None:
    """Write the finished runs as a CSV table, one row each."""
    from interp.sweep.table import read_runs, write_runs
    from models.files import write_atomically

    text = write_runs(read_runs(source))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())


@sweeps.command()
def compare(
    source: Source,
    reference: Annotated[
        Path | None, typer.Argument(metavar="[REFERENCE.csv]", help="By default the published T=32, L=10 numbers.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the largest deviations to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare cell by cell with the published numbers, within the tolerance that both sides' scatter allows."""
    from interp.sweep.compare import compare_cells, comparison_lines, read_reference
    from interp.sweep.table import by_cell, read_runs

    result = compare_cells(by_cell(read_runs(source)), read_reference(reference))
    if as_json:
        print_json([cell.to_dict() for cell in result.cells], summary=result.summary())
    else:
        typer.echo("\n".join(comparison_lines(result, worst)))
