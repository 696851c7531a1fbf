"""`interp construct`: a counter built by hand. `interp bounds`: how many dimensions counting needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import print_json, usage_errors
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import check_checkpoint_output
from counting_interp.util.text import columns


def _names() -> list[str]:
    from counting_interp.models.constructions.catalogue import CATALOGUE

    return list(CATALOGUE)


def construct(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A construction; `--list` shows them all.", autocompletion=opt.completing(_names)
        ),
    ] = None,
    T: opt.Alphabet = 32,
    L: opt.Length = 10,
    d: opt.Dimension = None,
    p: opt.Units = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the checkpoint.")] = None,
    classes: Annotated[int | None, typer.Option("--classes", help="L (default), or L + 1 as published.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="float32 or float64.")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="An option, such as weight=0.3.")
    ] = None,
    seed: opt.Seed = 0,
    overwrite: opt.Overwrite = False,
    list_all: Annotated[
        bool, typer.Option("--list", help="List all constructions, with their sizes at T and L.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Build a model that counts, provably, and write it with its mechanism label.

    -d and -p are the smallest possible by default. The embeddings of some constructions are searched for, which takes
    a few seconds; the same seed gives the same file.
    """
    opt.check_searchable(T, L)
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


def bounds(
    T: opt.Alphabet = 32,
    L: opt.Length = 10,
    p: Annotated[
        list[int] | None, typer.Option("-p", help="Hidden units; 1 and T by default. May be repeated.")
    ] = None,
    json: opt.Json = False,
) -> None:
    """The smallest embedding dimension for each variant: by the paper, by our constructions, by training.

    For T other than 15, 16 and 32 embeddings are searched for on the spot, which can take minutes.
    """
    opt.check_searchable(T, L)
    with usage_errors():
        from counting_interp.models.constructions import bounds as known

        rows = known.bounds(T, L, p or None)
    if json:
        print_json([vars(row) for row in rows], T=T, L=L)
        return
    table: list[tuple[str, ...]] = [
        ("model", "p", "paper d", "coherence <", "Welch", "our d", "by", "trained d", "trained, certified")
    ]
    for row in rows:
        numbers = [f"{value:.4f}" if value is not None else "-" for value in (row.coherence, row.welch)]
        known_d = (row.paper_d, row.our_d, row.trained_d, row.certified_d)
        paper, ours, trained, certified = (str(value or "-") for value in known_d)
        table.append((row.variant, str(row.p), paper, *numbers, ours, row.construction or "-", trained, certified))
    typer.echo(columns(table))
