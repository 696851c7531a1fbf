"""`interp figures`: draw what a sweep found. The first word says what of; see `MODES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interp.console import USAGE, complain, usage_errors

if TYPE_CHECKING:
    from interp.figures.drawing import Drawing


def register(app: typer.Typer) -> None:
    app.command()(figures)


def figures(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="phase DIR|TABLE.csv...", help="What to draw, and of what.", show_default=False),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")] = Path(
        "figures"
    ),
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this figure; repeatable.")] = None,
    formats: Annotated[str, typer.Option("--format", help="Of html, png, svg, pdf.")] = "html,png,svg,pdf",
    show_list: Annotated[bool, typer.Option("--list", help="Say what each figure shows.")] = False,
) -> None:
    """Draw figures, with the numbers of each as CSV. HTML needs no browser to write; images need Chrome or Chromium."""
    from interp.figures import export

    if show_list:
        _print_list()
        return
    mode, *rest = targets or [""]
    if mode not in MODES or not rest:
        complain(f"say what to draw: {' or '.join(f'`interp figures {name} ...`' for name in MODES)}; --list explains")
        raise typer.Exit(USAGE)
    with usage_errors():
        chosen = export.parse_formats(formats)
        drawings = list(MODES[mode](rest, only or ()))
        done = export.write(drawings, output, chosen)
    if done.missing:
        complain(done.missing)
    for path in done.paths:
        typer.echo(path)


def _phase(sources: Sequence[str], only: Sequence[str]) -> Iterator[Drawing]:
    """Sweeps: folders or exported tables, drawn together, so that they can be subtracted from each other."""
    from interp.figures.sweeps import draw_all
    from interp.sweep.table import read_runs
    from models.errors import InterpError

    runs = [run for source in sources for run in read_runs(source)]
    if not runs:
        raise InterpError("the sweep has no finished run yet; `interp sweep status DIR` says how far it is")
    return draw_all(runs, only)


def _print_list() -> None:
    from interp.figures import sweeps

    typer.echo("interp figures phase DIR")
    for name, line in sweeps.FIGURES.items():
        typer.echo(f"  {name:12} {line}")


MODES: dict[str, Callable[[Sequence[str], Sequence[str]], Iterator[Drawing]]] = {"phase": _phase}
