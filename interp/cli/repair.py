"""`interp repair`: train a model until it is proved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counting_interp.interp.cli.console import FAILED, INTERRUPTED, print_json, progress_bar, warn
from counting_interp.interp.cli.many_files import (
    AssumeMixing,
    AssumeSoftmax,
    Json,
    Seed,
    Threads,
    assumptions,
    expand,
    use_threads,
)
from counting_interp.util.outputs import OutputError, check_checkpoint_output

if TYPE_CHECKING:
    from counting_interp.interp.proof.repair.run import Repair, Round
    from counting_interp.models.transformer import CountingTransformer


def register(app: typer.Typer) -> None:
    app.command("repair")(repair)


def repair(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The checkpoint to begin with, or the name of a bundled one.")
    ],
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

    Proved means in the dtype of its weights. Each round trains on the sequences with the smallest margins and on
    counterexamples, then verifies. -o is written when there is a proof, with the certificate beside it; until then the
    best model is kept as NAME.unfinished, and --resume goes on with it. If the time is up before there is a proof, the
    cells that are open are listed and the exit code is 1.
    """
    if not output.parent.is_dir():
        raise OutputError(output.parent, "does not exist; make this folder first")
    from counting_interp.interp.proof.repair.files import begun, unfinished

    if begun(output) and not (resume or overwrite):
        there = output if output.exists() else unfinished(output)
        raise OutputError(there, "exists; --resume goes on with it, --overwrite replaces it")
    (path,) = expand([file])[:1]
    for target in (output, unfinished(output)):
        check_checkpoint_output(target, overwrite=True, inputs=[path])
    use_threads(threads)
    from counting_interp.models.transformer import CountingTransformer

    parent = CountingTransformer.load(path, **assumptions(mixing, softmax, None))
    raise typer.Exit(repair_all([(parent, output)], seconds, seed, resume, json))


def repair_all(
    models: list[tuple[CountingTransformer, Path]], seconds: float, seed: int, resume: bool, json: bool
) -> int:
    """Repair each into its file and say what became of it; returns the exit code."""
    from counting_interp.interp.cli import repair_report as report
    from counting_interp.interp.proof.repair import Interrupted, files
    from counting_interp.models.transformer import CountingTransformer

    entries, proved = [], True
    for parent, output in models:
        try:
            run = _repair_with_a_bar(parent, output, seconds, seed, resume)
        except Interrupted as interruption:
            warn(f"{interruption} (the same command with --resume)")
            return INTERRUPTED
        if run is None:
            before = CountingTransformer.load(output).metadata["repair"]
            entries.append({"path": str(output), "repair": before})
            text = f"{output}: certified before; nothing is left to repair"
        else:
            changed = report.change(run)
            entries.append({"path": str(output), "repair": files.history(run), **changed.to_dict()})
            text, proved = report.as_text(str(output), run, changed), proved and run.certified
        if not json:
            typer.echo(text)
    if json:
        print_json(entries)
    return 0 if proved else FAILED


def _repair_with_a_bar(
    parent: CountingTransformer, output: Path, seconds: float, seed: int, resume: bool
) -> Repair | None:
    from counting_interp.interp.proof.repair import progress_line, repair_until

    with progress_bar() as bar:
        task = bar.add_task("reading", total=1.0)

        def show(stage: str, share: float) -> None:
            bar.update(task, description=stage, completed=share)

        def say(last: Round) -> None:
            bar.console.print(f"round {last.number}: {progress_line(last)}", markup=False, highlight=False)

        return repair_until(parent, output, seconds, seed, resume, show, say)
