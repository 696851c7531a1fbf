"""`interp inspect`: what a checkpoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interp.checkpoints import (
    AssumeLength,
    AssumeMixing,
    AssumeSoftmax,
    Device,
    Files,
    Json,
    Seed,
    Threads,
    exit_code,
    for_each,
    use,
)
from interp.console import CHECKPOINT_REFUSED, complain, print_json
from models.errors import printable


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
    device: Device = "cpu",
    threads: Threads = 1,
) -> None:
    """Say what a checkpoint is: variant, sizes, measured accuracy, what was assumed, whether its hash holds.

    Reads .pt and .safetensors files of this program and of the paper's authors. Several files: one line each.
    """
    chosen = use(device, threads)
    from interp import inspect as inspection

    assume = {"mixing": mixing.value if mixing else None, "softmax": softmax, "L": length}

    def look(path: Path) -> inspection.Inspection:
        return inspection.inspect(path, n=sequences, seed=seed, device=chosen, **assume)

    outcomes = for_each(files, look, "inspecting")
    found = [(outcome.path, outcome.result) for outcome in outcomes if outcome.result is not None]
    changed = [path for path, result in found if result.hash_holds is False]
    for path in changed:
        complain(f"{printable(str(path))}: its sha256 does not hold; other commands refuse this file")
    if json:
        print_json([outcome.entry(inspection.Inspection.to_dict) for outcome in outcomes])
    elif len(outcomes) == 1 and found:
        typer.echo(inspection.as_text(*found[0]))
    elif found:
        typer.echo(inspection.as_table(found))
    raise typer.Exit(CHECKPOINT_REFUSED if changed else exit_code(outcomes))
