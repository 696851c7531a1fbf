"""`interp bounds`: how many dimensions counting needs."""

from __future__ import annotations

from typing import Annotated

import typer

from counting_interp.interp.cli.console import print_json, usage_errors
from counting_interp.interp.cli.options import Alphabet, Json, Length, check_searchable
from counting_interp.util.text import columns


def register(app: typer.Typer) -> None:
    app.command("bounds")(bounds)


def bounds(
    T: Alphabet = 32,
    L: Length = 10,
    p: Annotated[
        list[int] | None, typer.Option("-p", help="Hidden units; 1 and T by default. May be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """The smallest embedding dimension for each variant: by the paper, by our constructions, by training.

    For T other than 15, 16 and 32 embeddings are searched for on the spot, which can take minutes.
    """
    check_searchable(T, L)
    with usage_errors():
        from counting_interp.models.constructions import bounds as known

        rows = known.bounds(T, L, p or None)
    if json:
        print_json([row.to_dict() for row in rows], T=T, L=L)
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
