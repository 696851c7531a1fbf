"""`interp verify`: right on every sequence, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Files, Json, Threads, exit_code, expand, for_each, use
from interp.console import FAILED, print_json, progress_bar


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    files: Files,
    json: Json = False,
    seconds: Annotated[float, typer.Option("--time", min=0.001, help="Seconds for each checkpoint.")] = 60.0,
    max_count: Annotated[
        int | None, typer.Option("--max-count", min=1, help="Ask only about positions with at most this true count.")
    ] = None,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    threads: Threads = 1,
) -> None:
    """Prove that a checkpoint counts rightly on every sequence, or show one that it gets wrong.

    Certified, refuted (exit code 1), or undecided within the time. A file that cannot be read is reported, the others
    are verified, and the exit code is 3.
    """
    use(threads=threads)
    from interp import verify as verification

    assume: dict[str, Any] = {"mixing": mixing.value if mixing else None, "softmax": softmax}

    def one(path: Path) -> verification.Verification:
        if len(expand(files)) > 1:
            return verification.verify(path, seconds, max_count, **assume)
        with progress_bar() as bar:
            task = bar.add_task("reading", total=1.0)
            return verification.verify(
                path,
                seconds,
                max_count,
                lambda stage, share: bar.update(task, description=stage, completed=share),
                **assume,
            )

    outcomes = for_each(files, one, "verifying")
    found = [(outcome.path, outcome.result) for outcome in outcomes if outcome.result is not None]
    if json:
        print_json([outcome.entry(verification.Verification.to_dict) for outcome in outcomes])
    elif len(outcomes) == 1 and found:
        typer.echo(verification.as_text(*found[0]))
    elif found:
        typer.echo(verification.as_table(found))
    refuted = any(result.outcome.verdict == "refuted" for _, result in found)
    raise typer.Exit(exit_code(outcomes) or (FAILED if refuted else 0))
