"""`interp check`: does a certificate prove what it says about these weights? Needs neither torch nor the prover."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from counting_interp.interp.cli.console import FAILED, print_json, progress_bar, warn
from counting_interp.interp.cli.many_files import Json, expand


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(
    certificate: Annotated[Path, typer.Argument(metavar="CERT.json", help="What `interp prove --certificate` wrote.")],
    checkpoint: Annotated[
        Path, typer.Argument(metavar="FILE", help="The checkpoint that it is about, or the name of a bundled one.")
    ],
    json: Json = False,
) -> None:
    """Check a certificate against the weights it names, with integers alone.

    A certificate that proves nothing is refused (exit code 1); a checkpoint that cannot be read gives 3.
    """
    from counting_interp.interp.proof.checker.check import Checked
    from counting_interp.interp.proof.checker.check import check as checked
    from counting_interp.interp.proof.checker.weights import Refused, Unreadable
    from counting_interp.util.errors import CheckpointError, printable

    checkpoint = checkpoint if checkpoint.exists() else expand([checkpoint])[0]
    for path in (certificate, checkpoint):
        if not path.exists():
            raise CheckpointError(path, "does not exist")
    files = {"path": str(checkpoint), "certificate": str(certificate)}
    try:
        with progress_bar() as bar:
            task = bar.add_task("checking", total=1.0)
            found: Checked = checked(certificate, checkpoint, lambda share: bar.update(task, completed=share))
    except Unreadable as reason:
        raise CheckpointError(checkpoint, str(reason)) from None
    except Refused as reason:
        if json:
            print_json([{**files, "holds": False, "reason": str(reason)}])
        warn(f"{printable(str(certificate))}: refused, {printable(str(reason))}")
        raise typer.Exit(FAILED) from None
    if json:
        print_json([{**files, "holds": True, "claim": found.claim, **dataclasses.asdict(found)}])
    else:
        typer.echo(_as_text(printable(str(certificate)), printable(str(checkpoint)), found.model, found))


def _as_text(certificate: str, checkpoint: str, model: dict[str, Any], found: Any) -> str:
    name = model["mixing"] + ("+sftm" if model["softmax"] else "")
    return "\n".join(
        [
            f"{certificate}: holds for {checkpoint}",
            f"  claim     {found.claim}",
            f"  model     {name}, T={model['T']}, L={model['L']}, d={model['d']}, p={model['p']}",
            f"  margin    above {found.margin:.6g} everywhere, and above rounding by {found.slack:.6g} or more",
            f"  proof     {found.cells} cells, {found.nodes} nodes, checked with integers alone",
        ]
    )
