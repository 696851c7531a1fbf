"""`interp construct`: a counter built by hand, written as a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counting_interp.interp.cli.console import print_json, usage_errors
from counting_interp.interp.cli.options import (
    Alphabet,
    Dimension,
    Json,
    Length,
    Overwrite,
    Seed,
    Units,
    check_searchable,
    completing,
)
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.outputs import check_checkpoint_output
from counting_interp.util.text import columns


def register(app: typer.Typer) -> None:
    app.command("construct")(construct)


def _names() -> list[str]:
    from counting_interp.models.constructions.catalogue import CATALOGUE

    return list(CATALOGUE)


def construct(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A construction; `--list` shows them all.", autocompletion=completing(_names)
        ),
    ] = None,
    T: Alphabet = 32,
    L: Length = 10,
    d: Dimension = None,
    p: Units = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the checkpoint.")] = None,
    classes: Annotated[int | None, typer.Option("--classes", help="L (default), or L + 1 as published.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="float32 or float64.")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="An option, such as weight=0.3.")
    ] = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    list_all: Annotated[
        bool, typer.Option("--list", help="List all constructions, with their sizes at T and L.")
    ] = False,
    json: Json = False,
) -> None:
    """Build a model that counts, provably, and write it with its mechanism label.

    -d and -p are the smallest possible by default. The embeddings of some constructions are searched for, which takes
    a few seconds; the same seed gives the same file.
    """
    check_searchable(T, L)
    if list_all:
        _list(T, L, json)
        return
    if name is None or output is None:
        raise typer.BadParameter("give a NAME and -o FILE, or --list", param_hint="NAME")
    check_checkpoint_output(output, overwrite)
    with usage_errors():
        values = _values(options or [])
        from counting_interp.models import constructions

        model = constructions.construct(name, T, L, d, p, n_classes=classes, dtype=dtype, seed=seed, **values)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        model.save(output)
    except OSError as error:
        raise InterpError(f"cannot write {printable(str(output))}: {error.strerror}; choose another -o") from error
    config, facts = model.config, model.metadata["mechanism"]
    if json:
        print_json([{"path": str(output), "model": config.name, **config.to_dict(), "mechanism": facts}])
        return
    sizes = f"T={config.T}, L={config.L}, d={config.d}, p={config.p}"
    typer.echo(f"{printable(str(output))}: {name}, {facts['label']} in {config.name}, {sizes}")


def _values(options: list[str]) -> dict[str, float]:
    values = {}
    for option in options:
        key, sign, value = option.partition("=")
        try:
            values[key] = float(value)
        except ValueError:
            sign = ""
        if not sign:
            raise ValueError(f"an option is written as weight=0.3, got {printable(option)!r}")
    return values


def _list(T: int, L: int, json: bool) -> None:
    with usage_errors():
        from counting_interp.models.constructions import sizes

        rows = sizes(T, L)
    if json:
        print_json(rows, T=T, L=L)
        return
    table: list[tuple[str, ...]] = [("name", "model", "mechanism", "d", "p", "what it does", "from")]
    for row in rows:
        numbers = [str(row[key] or "-") for key in ("d", "p")]
        table.append((row["name"], row["model"], row["mechanism"], *numbers, row["summary"], row["proposition"]))
    typer.echo(columns(table))
