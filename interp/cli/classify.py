"""`interp classify`: how does it count?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.many_files import Loading, finish, for_each, shown
from counting_interp.util.errors import printable
from counting_interp.util.text import columns, sampled, two_places

if TYPE_CHECKING:
    from counting_interp.interp.verdict.files import Classified

SCHEMA_VERSION = 3  # since 3: `mechanism` and `estimates` in place of `label` and `numbers`


def classify(
    files: opt.Files,
    *,
    json: opt.Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Half of the sequences; wider intervals.")] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Also prove what transplants do on every sequence.")] = False,
    loading: Loading,
    seed: opt.Seed = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Files worked on at a time; one per core by default.")
    ] = None,
) -> None:
    """Say how a model counts: relation-based (RC), inventory-based (IC), gated or mixed, as three shares.

    One file: the verdict with its evidence. Several: one row each. Snapshots of one run are shown in the order of
    their steps. Models of another kind are loaded by code of yours: --adapter my_model.py:load, where load takes the
    path and returns a counting_interp.Adapter. A Hugging Face folder is taken as it is. No other code that comes with
    a model is ever run.
    """
    load = loading.loader()
    if loading.adapter is not None and prove:
        raise typer.BadParameter("proofs read the weights of counting transformers: no --prove with --adapter")
    from counting_interp.interp.verdict.files import Classified, classify_file, runs

    def work(path: Path) -> Classified:
        return classify_file(path, load=load, quick=quick, prove=prove, seed=seed)

    outcomes = for_each(files, work, "classifying", workers=workers or os.cpu_count() or 1)
    formations = runs([outcome.result for outcome in outcomes if outcome.result is not None])

    def several(results: list[tuple[Path, Classified]]) -> str:
        in_runs = {id(snapshot) for formation in formations for snapshot in formation.snapshots}
        others = [result for _, result in results if id(result) not in in_runs]
        tables = [as_table(others)] if others else []
        tables += [f"{shown(f.folder)}\n{as_table(list(f.snapshots), steps=True)}\n{f}" for f in formations]
        return "\n\n".join(tables)

    finish(
        outcomes,
        as_json=json,
        facts=Classified.to_dict,
        one=as_text,
        several=several,
        version=SCHEMA_VERSION,
        runs=[formation.to_dict() for formation in formations],
    )


def as_text(path: Path, result: Classified) -> str:
    """One verdict with its evidence, and what had to be assumed of the file."""
    assumed = [f"  assumed     {printable(line, 400)}" for line in result.assumed]
    return "\n".join([shown(path), str(result.verdict), *assumed])


def as_table(rows: list[Classified], *, steps: bool = False) -> str:
    """One row per checkpoint; with `steps`, the snapshots of one run by their steps instead of their names."""
    head = ("step" if steps else "file", "model", "T", "L", "d", "p", "mechanism", "accuracy", "RC", "IC", "gated")
    prove = any(row.verdict.proved or row.verdict.unproved for row in rows)
    table: list[tuple[str, ...]] = [(*head, "proved") if prove else head]
    for row in rows:
        verdict = row.verdict
        table.append(
            (
                f"{row.step:,}" if steps and row.step is not None else shown(row.path, 60),
                row.name + ("" if row.config["n_layers"] == 1 else f" x{row.config['n_layers']}"),
                *(str(row.config[name]) for name in ("T", "L", "d", "p")),
                verdict.title,
                sampled(verdict.accuracy),
                *(two_places(share.value) for share in verdict.shares),
                *([verdict.proved.short if verdict.proved else "-"] if prove else []),
            )
        )
    return columns(table)
