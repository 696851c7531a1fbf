"""`interp prove`: right on every sequence, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counting_interp.interp.cli.console import FAILED, progress_bar
from counting_interp.interp.cli.many_files import (
    AssumeLength,
    AssumeMixing,
    AssumeSoftmax,
    Files,
    Json,
    Overwrite,
    Threads,
    assumptions,
    exit_code,
    expand,
    for_each,
    present,
    use_threads,
)
from counting_interp.util.outputs import check_output

CERTIFICATE = b'{"format":"counting-interp certificate"'  # how each one begins


def register(app: typer.Typer) -> None:
    app.command("prove")(prove)


def prove(
    files: Files,
    json: Json = False,
    seconds: Annotated[float, typer.Option("--time", min=0.001, help="Seconds for each checkpoint.")] = 60.0,
    max_count: Annotated[
        int | None, typer.Option("--max-count", min=1, help="Ask only about positions with at most this true count.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="CERT.json", help="Write the proof here, for `interp check`."),
    ] = None,
    overwrite: Overwrite = False,
    cells: Annotated[bool, typer.Option("--cells", help="Show every cell: margin, bound, rounding, slack.")] = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    length: AssumeLength = None,
    threads: Threads = 1,
) -> None:
    """Prove that a checkpoint counts rightly on every sequence, or show one that it gets wrong.

    Certified, refuted (exit code 1), or undecided within the time. A file that cannot be read is reported, the others
    are proved or refuted, and the exit code is 3.
    """
    if certificate is not None:
        if len(expand(files)) > 1:
            raise typer.BadParameter("takes one checkpoint at a time", param_hint="--certificate")
        check_output(certificate, files, overwrite, lambda head: head.startswith(CERTIFICATE))
    use_threads(threads)
    from counting_interp.interp.cli import proofs

    assume = assumptions(mixing, softmax, length)
    alone = len(expand(files)) == 1

    def one(path: Path) -> proofs.FileProof:
        if not alone:
            return proofs.prove_file(path, seconds, max_count, **assume)
        with progress_bar() as bar:
            task = bar.add_task("reading", total=1.0)
            return proofs.prove_file(
                path,
                seconds,
                max_count,
                lambda stage, share: bar.update(task, description=stage, completed=share),
                certificate,
                **assume,
            )

    outcomes = for_each(files, one, "proving")
    present(
        outcomes,
        as_json=json,
        facts=lambda found: found.to_dict(cells),
        one=lambda path, found: proofs.as_text(path, found, cells),
        several=proofs.as_table,
    )
    refuted = any(outcome.result and outcome.result.outcome.verdict == "refuted" for outcome in outcomes)
    raise typer.Exit(exit_code(outcomes) or (FAILED if refuted else 0))
