"""`interp inspect`: what a checkpoint is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, warn
from counting_interp.interp.cli.many_files import (
    AssumeLength,
    AssumeMixing,
    AssumeSoftmax,
    ClassIds,
    Files,
    Json,
    OwnCode,
    Seed,
    Threads,
    TokenIds,
    assumptions,
    exit_code,
    for_each,
    is_hugging_face,
    loading,
    present,
    shown,
    use_threads,
)

if TYPE_CHECKING:
    from counting_interp.models.protocol import CountingModel


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
    adapter: OwnCode = None,
    tokens: TokenIds = None,
    classes: ClassIds = None,
    seed: Seed = 0,
    threads: Threads = 1,
) -> None:
    """Say what a checkpoint is: variant, sizes, measured accuracy, what was assumed, whether its hash holds.

    Reads .pt and .safetensors files of this program and of the paper's authors. Several files: one line each. Of models
    of another kind (--adapter my_model.py:load, or a Hugging Face folder) it says what was found in them, and how.
    """
    use_threads(threads)
    if adapter is not None or all(map(is_hugging_face, files)):
        _inspect_adapted(files, loading(adapter, assumptions(mixing, softmax, length), tokens, classes), json)
    from counting_interp.interp.cli import inspection

    assume = assumptions(mixing, softmax, length)

    def look(path: Path) -> inspection.Inspection:
        return inspection.inspect(path, n=sequences, seed=seed, **assume)

    outcomes = for_each(files, look, "inspecting")
    changed = [outcome.path for outcome in outcomes if outcome.result and outcome.result.hash_holds is False]
    for path in changed:
        warn(f"{shown(path)}: its sha256 does not hold; other commands refuse this file")
    present(
        outcomes,
        as_json=json,
        facts=inspection.Inspection.to_dict,
        one=inspection.as_text,
        several=inspection.as_table,
    )
    raise typer.Exit(CHECKPOINT_REFUSED if changed else exit_code(outcomes))


def _inspect_adapted(files: list[Path], load: Callable[[Path], CountingModel], json: bool) -> None:
    """What adapters found, instead of what a checkpoint says."""

    def texts(found: list[tuple[Path, CountingModel]]) -> str:
        return "\n\n".join(f"{shown(path)}\n{model}" for path, model in found)

    outcomes = for_each(files, load, "inspecting")
    present(
        outcomes,
        as_json=json,
        facts=lambda model: {**model.config.to_dict(), "found": str(model).splitlines()},
        one=lambda path, model: texts([(path, model)]),
        several=texts,
    )
    raise typer.Exit(exit_code(outcomes))
