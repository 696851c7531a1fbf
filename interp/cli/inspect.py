"""`interp inspect`: what a checkpoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, complain
from counting_interp.interp.cli.many_files import (
    AssumeLength,
    AssumeMixing,
    AssumeSoftmax,
    Files,
    Json,
    Seed,
    Threads,
    assumptions,
    exit_code,
    for_each,
    present,
    shown,
    use_threads,
)


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    files: Files,
    json: Json = False,
    sequences: Annotated[
        int, typer.Option("-n", "--sequences", min=1, max=10**6, help="Fresh sequences to measure on.")
    ] = 3000,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    length: AssumeLength = None,
    seed: Seed = 0,
    threads: Threads = 1,
) -> None:
    """Say what a checkpoint is: variant, sizes, measured accuracy, what was assumed, whether its hash holds.

    Reads .pt and .safetensors files of this program and of the paper's authors. Several files: one line each.
    """
    use_threads(threads)
    from counting_interp.interp.cli import inspection

    assume = assumptions(mixing, softmax, length)

    def look(path: Path) -> inspection.Inspection:
        return inspection.inspect(path, n=sequences, seed=seed, **assume)

    outcomes = for_each(files, look, "inspecting")
    changed = [outcome.path for outcome in outcomes if outcome.result and outcome.result.hash_holds is False]
    for path in changed:
        complain(f"{shown(path)}: its sha256 does not hold; other commands refuse this file")
    present(
        outcomes,
        as_json=json,
        facts=inspection.Inspection.to_dict,
        one=inspection.as_text,
        several=inspection.as_table,
    )
    raise typer.Exit(CHECKPOINT_REFUSED if changed else exit_code(outcomes))
