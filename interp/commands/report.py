"""`interp report`: one HTML page about one checkpoint, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Device, Files, Seed, Threads, expand, use
from interp.console import USAGE, complain, progress_bar


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")] = Path("report.html"),
    several: Annotated[bool, typer.Option("--several", help="Compare the checkpoints side by side.")] = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Write a page that opens with the network off: verdict, evidence, figures, and the checkpoint running in it."""
    chosen = use(device, threads)
    from interp.report.subject import subject_of
    from interp.report.writing import write_report

    paths = expand(files)
    if len(paths) > 1 and not several:
        complain(f"{len(paths)} checkpoints were given; add --several to compare them on one page")
        raise typer.Exit(USAGE)
    assume = {"mixing": mixing.value if mixing else None, "softmax": softmax}
    with progress_bar() as progress:
        subjects = [
            subject_of(path, seed=seed, device=chosen, **assume)
            for path in progress.track(paths, description="measuring")
        ]
    write_report(subjects, output)
    typer.echo(output)
