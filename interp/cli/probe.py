"""`interp probe NAME ckpt.pt ...`: run one probe and print its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import FAILED, USAGE, print_json, usage_errors, warn
from counting_interp.interp.cli.many_files import FileOutcome, Loading, exit_code, for_each, shown
from counting_interp.util.errors import printable
from counting_interp.util.text import columns, describe

if TYPE_CHECKING:
    from counting_interp.models.protocol import CountingModel, ModelSpec
    from counting_interp.probes.catalogue import Probe
    from counting_interp.probes.result import Result


def _names() -> list[str]:
    from counting_interp.probes.catalogue import CATALOGUE

    return [known.name for known in CATALOGUE]


def probe(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which probe; --list shows all.", autocompletion=opt.completing(_names)),
    ] = None,
    files: Annotated[list[Path] | None, opt.FilesArgument] = None,
    *,
    list_all: Annotated[bool, typer.Option("--list", help="List the probes.")] = False,
    json: opt.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="The probe's table, as CSV on standard output.")] = False,
    sequence: Annotated[
        str | None, typer.Option("--sequence", help="Letters (A is token 0) or numbers: BBCBBBDEEE or 1,1,2,...")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", min=0, help="Which block, from 0.")] = None,
    head: Annotated[int | None, typer.Option("--head", min=0, help="Which head, from 0, of those it has.")] = None,
    seed: opt.OptionalSeed = None,
    loading: Loading,
) -> None:
    """Measure one thing on a checkpoint, or on many, and print the numbers.

    Prints a summary; --json adds everything measured, --csv prints the table behind the figure. Models of another kind
    are loaded by code of yours: --adapter my_model.py:load, where load takes the path and returns an Adapter.
    """
    from counting_interp.probes.catalogue import find

    if json and csv:
        raise typer.BadParameter("choose one of --json and --csv", param_hint="--csv")
    if list_all:
        _print_list(json)
        return
    if name is None or not files:
        warn("give a probe and a checkpoint (interp probe attention ckpt.pt); interp probe --list shows the probes")
        raise typer.Exit(USAGE)
    with usage_errors():
        chosen = find(name)
        load = loading.loader()
        options = {"sequence": sequence, "layer": layer, "head": head, "seed": seed}
        outcomes = for_each(files, lambda path: _run(chosen, path, options, load), f"probing {name}")
    if json:
        print_json([outcome.entry(_facts) for outcome in outcomes])
    elif csv:
        _print_csv(outcomes)
    else:
        _print_summaries(outcomes)
    refused = any(outcome.result is not None and outcome.result.refusal for outcome in outcomes)
    raise typer.Exit(exit_code(outcomes) or (FAILED if refused else 0))


@dataclass(frozen=True)
class Answer:
    """A probe's answer for one file: its result, or why it does not apply."""

    config: ModelSpec
    result: Result | None = None
    refusal: str | None = None


def _run(chosen: Probe, path: Path, options: dict[str, Any], load: Callable[[Path], CountingModel]) -> Answer:
    from counting_interp.probes.applicability import NotApplicable
    from counting_interp.probes.designs import parse_sequence

    model = load(path)
    if options["sequence"] is not None:
        options = {**options, "sequence": parse_sequence(options["sequence"], model.config)}
    try:
        return Answer(model.config, result=chosen.run(model, **options))
    except NotApplicable as refusal:
        warn(f"{shown(path)}: {refusal}")
        return Answer(model.config, refusal=str(refusal))


def _facts(answer: Answer) -> dict[str, Any]:
    """The model and what was measured, or `not_applicable`."""
    config = answer.config
    sizes = {name: getattr(config, name) for name in ("T", "L", "d", "p", "n_layers")}
    measured = {"not_applicable": answer.refusal} if answer.result is None else answer.result.to_dict()
    return {"model": config.name, **sizes, **measured}


def _measured(outcomes: list[FileOutcome[Answer]]) -> list[tuple[str, ModelSpec, Result]]:
    return [
        (shown(outcome.path), outcome.result.config, outcome.result.result)
        for outcome in outcomes
        if outcome.result is not None and outcome.result.result is not None
    ]


def _print_csv(outcomes: list[FileOutcome[Answer]]) -> None:
    """The table. Of several files, their tables one below the other with the path in front.

    Some tables have columns that only one file has (token names): then each starts with its header.
    """
    from counting_interp.util.tables import write_csv

    measured = _measured(outcomes)
    if len(outcomes) == 1:
        tables = [result.rows() for _, _, result in measured]
    else:
        tables = [[{"path": path, **row} for row in result.rows()] for path, _, result in measured]
    columns: list[str] = []
    for rows in tables:
        text = write_csv(rows)
        if rows and list(rows[0]) == columns:
            text = text.split("\n", 1)[1]
        columns = list(rows[0]) if rows else columns
        typer.echo(text, nl=False)


def _print_summaries(outcomes: list[FileOutcome[Answer]]) -> None:
    for i, (path, config, result) in enumerate(_measured(outcomes)):
        typer.echo(("\n" if i else "") + f"{path}  {describe(config)}")
        cells = [tuple(printable(cell) for cell in row) for row in result.table()]
        typer.echo("\n".join(f"  {line}" for line in columns(cells).splitlines()))


def _print_list(json: bool) -> None:
    from counting_interp.probes.catalogue import CATALOGUE

    if json:
        print_json([{"name": p.name, "description": p.description, "options": list(p.options)} for p in CATALOGUE])
        return
    width = max(len(p.name) for p in CATALOGUE)
    for p in CATALOGUE:
        typer.echo(f"{p.name:{width}}  {p.description}")
