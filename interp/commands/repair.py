"""`interp repair`: train a model until it is proved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Json, Seed, Threads, use
from interp.console import FAILED, INTERRUPTED, USAGE, complain, print_json, progress_bar

if TYPE_CHECKING:
    from interp.repair import Repair


def register(app: typer.Typer) -> None:
    app.command("repair")(repair)


def repair(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The checkpoint to begin with.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The checkpoint to write, .pt or .safetensors.")],
    seconds: Annotated[float, typer.Option("--time", min=0.001, help="Seconds after which no round begins.")] = 300.0,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the repair at -o, if there is one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the checkpoint at -o.")] = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    json: Json = False,
    threads: Threads = 1,
) -> None:
    """Train a model on what it gets wrong, until it is proved right on every sequence.

    Each round trains on the sequences with the smallest margins and on counterexamples, then verifies. After each, the
    best model so far is written to -o; --resume goes on with it. If the time is up before there is a proof, the cells
    that are open are listed and the exit code is 1.
    """
    if not output.parent.is_dir():
        complain(f"the folder {output.parent} does not exist; make it first")
        raise typer.Exit(USAGE)
    if output.exists() and not (resume or overwrite):
        complain(f"{output} exists; --resume goes on with it, --overwrite replaces it")
        raise typer.Exit(USAGE)
    use(threads=threads)
    from interp.repair import files, report
    from models.transformer import CountingTransformer

    parent = CountingTransformer.load(file, mixing=mixing.value if mixing else None, softmax=softmax)
    run = pursue(parent, output, seconds, seed, resume)
    if run is None:
        typer.echo(f"{output}: certified before; nothing is left to repair")
        return
    changed = report.change(run)
    if json:
        print_json([{"path": str(output), **files.history(run), **changed.to_dict()}])
    else:
        typer.echo(report.as_text(str(output), run, changed))
    raise typer.Exit(0 if run.certified else FAILED)


def pursue(parent, output: Path, seconds: float, seed: int, resume: bool) -> Repair | None:
    """Rounds until there is a proof or the time is up, each written to `output`; None if a proof was there before."""
    from interp.repair import Repair, files

    until = time.monotonic() + seconds
    with progress_bar() as bar:
        task = bar.add_task("reading", total=1.0)

        def show(stage: str, share: float) -> None:
            known = f"  {run.best.proved}/{run.best.cells} proved, {run.best.wrong} wrong" if run else ""
            bar.update(task, description=stage + known, completed=share)

        run: Repair | None = None
        try:
            run = files.reopen(parent, output, show) if resume and output.exists() else Repair(parent, seed, show)
            if run is None:
                return None
            files.write(run, output)
            while not run.certified and time.monotonic() < until:
                last = run.advance(until - time.monotonic())
                files.write(run, output)
                bar.console.print(progress_line(last), markup=False, highlight=False)
        except KeyboardInterrupt:
            if run is not None:
                complain(f"interrupted after round {run.rounds[-1].number}; {output} can be resumed (--resume)")
                raise typer.Exit(INTERRUPTED) from None
            raise
    return run


def progress_line(last) -> str:
    margin = "none" if last.margin is None else f"{last.margin:.3g}"
    return f"round {last.number}: {last.proved} of {last.cells} cells proved, {last.wrong} wrong, margin {margin}"
