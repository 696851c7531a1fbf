"""`interp report`: one HTML page about one checkpoint, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Files, Seed, Threads, expand, use
from interp.console import USAGE, complain, progress_bar

IN_FULL = 4  # more checkpoints than this are compared in a table, and only some of them shown in full


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")] = Path("report.html"),
    several: Annotated[bool, typer.Option("--several", help="Compare the checkpoints side by side.")] = False,
    show: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of many checkpoints, show this one in full; repeatable."),
    ] = None,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    seed: Seed = 0,
    threads: Threads = 1,
) -> None:
    """Write a page that opens with the network off: verdict, evidence, figures, and the checkpoint running in it."""
    use(threads=threads)
    from interp.report.subject import subject_of, titles
    from interp.report.writing import write_report

    paths = expand(files)
    if len(paths) > 1 and not several:
        complain(f"{len(paths)} checkpoints were given; add --several to compare them on one page")
        raise typer.Exit(USAGE)
    names = titles(paths)
    chosen = _in_full(names, show or [])
    assume = {"mixing": mixing.value if mixing else None, "softmax": softmax}
    with progress_bar() as progress:
        work = list(zip(paths, names, strict=True))
        subjects = [
            subject_of(path, title=name, seed=seed, full=name in chosen, **assume)
            for path, name in progress.track(work, description="measuring")
        ]
    write_report([one for one in subjects if one.drawings], output, [one for one in subjects if not one.drawings])
    typer.echo(output)


def _in_full(names: list[str], show: list[str]) -> set[str]:
    """Those that are named (by their title, or without its ending), or all of a few, or the first two of many."""
    if not show:
        return set(names if len(names) <= IN_FULL else names[:2])
    chosen = set()
    for wanted in show:
        found = [name for name in names if name == wanted or Path(name).stem == wanted]
        if not found:
            listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            complain(f"--show {wanted!r} is none of the checkpoints: {listed}")
            raise typer.Exit(USAGE)
        chosen.update(found)
    return chosen
