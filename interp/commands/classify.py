"""`interp classify`: how does it count?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Device, Files, Json, Seed, Threads, exit_code, for_each, use
from interp.console import print_json
from models.errors import printable


def register(app: typer.Typer) -> None:
    app.command("classify")(classify)


def classify(
    files: Files,
    json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the sequences; wider intervals.")] = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Files worked on at a time; one per core by default.")
    ] = None,
) -> None:
    """Say how a model counts: relation-based (RC), inventory-based (IC), mixed, or unsolved, and why.

    One file: the verdict with its evidence. Several: one row each. Snapshots of one run are shown in the order of
    their steps.
    """
    chosen = use(device, threads)
    from interp.classify.files import Classified, as_table, classify_file
    from interp.classify.formation import runs

    assume = {"mixing": mixing.value if mixing else None, "softmax": softmax}

    def work(path: Path) -> Classified:
        return classify_file(path, quick=quick, seed=seed, device=chosen, **assume)

    outcomes = for_each(files, work, "classifying", workers=workers or os.cpu_count() or 1)
    found = [outcome.result for outcome in outcomes if outcome.result is not None]
    formations = runs(found)
    if json:
        results = [outcome.entry(Classified.to_dict) for outcome in outcomes]
        print_json(results, runs=[formation.to_dict() for formation in formations])
    elif len(outcomes) == 1 and found:
        typer.echo(f"{printable(str(found[0].path))}\n{found[0].verdict}")
        for line in found[0].assumed:
            typer.echo(f"  assumed     {printable(line, 400)}")
    else:
        shown = {id(snapshot) for formation in formations for snapshot in formation.snapshots}
        rest = [row for row in found if id(row) not in shown]
        parts = [as_table(rest)] if rest else []
        parts += [f"{printable(str(f.folder))}\n{as_table(list(f.snapshots), steps=True)}\n{f}" for f in formations]
        if parts:
            typer.echo("\n\n".join(parts))
    raise typer.Exit(exit_code(outcomes))
