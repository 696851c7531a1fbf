"""`interp atlas`: a page to walk through a sweep, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counting_interp.interp.cli.console import announce, progress_bar
from counting_interp.interp.cli.many_files import Overwrite
from counting_interp.util.outputs import check_output


def register(app: typer.Typer) -> None:
    app.command()(atlas)


def atlas(
    sweeps: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SWEEP ...", help="Folders or exported tables; by default the bundled tables."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")] = Path("atlas.html"),
    overwrite: Overwrite = False,
) -> None:
    """Write a page that opens with the network off: maps of accuracy, mechanism and proof over (d, p); of every cell
    its runs, verdicts and evidence; and of as many as fit (under 15 MB) the model itself, running in the page."""
    from counting_interp.data import all_runs
    from counting_interp.interp.pages.atlas import GENERATOR, atlas_html
    from counting_interp.interp.pages.atlas_models import bundled, checkpoints_of, choose, load_live
    from counting_interp.interp.sweep.table import read_runs
    from counting_interp.util.errors import InterpError
    from counting_interp.util.files import write_atomically

    sources = sweeps or all_runs()
    check_output(
        output, sources, overwrite, ours=lambda head: f'name="generator" content="{GENERATOR}"'.encode() in head
    )
    runs = read_runs(*sources)
    if not runs:
        raise InterpError("the sweep has no finished run yet; `interp sweep status DIR` says how far it is")
    source = ", ".join(path.name for path in sweeps) if sweeps else "the bundled tables"
    there = checkpoints_of(sources)
    with progress_bar() as progress:
        chosen = progress.track(choose(runs, there), description="reading models")
        page = atlas_html(runs, load_live(chosen, there) if sweeps else bundled(runs), source)
    write_atomically(output, page.encode())
    announce(output)
