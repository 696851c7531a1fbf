"""What all commands say in the same way: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from counting_interp.models.plain import to_json

if TYPE_CHECKING:
    from rich.progress import Progress

DONE, FAILED, USAGE, CHECKPOINT_REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
SCHEMA_VERSION = 1


def complain(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"interp: {message}", err=True)


def is_an_interruption(error: BaseException | None) -> bool:
    """Ctrl-C in the middle of an import can come out as another exception: Python 3.11 turns one that falls into the
    making of a class into a RuntimeError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def print_json(results: list[dict[str, Any]], *, version: int = SCHEMA_VERSION, **fields: Any) -> None:
    """The one JSON document of a `--json` run: `{"schema_version": 1, "results": [...], ...}`. A command whose fields
    have changed their meaning has a higher `version` of its own."""
    document = {"schema_version": version, "results": results, **fields}
    typer.echo(to_json(document, indent=2))


def two_places(number: float) -> str:
    """`0.97`; what rounds to zero has no sign."""
    return f"{round(number, 2) + 0.0:.2f}"


def columns(rows: list[tuple[str, ...]]) -> str:
    """A table as text, each column as wide as its widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Values that a configuration or a sampler refuses are the user's to correct: exit code 2."""
    try:
        yield
    except ValueError as error:
        complain(str(error))
        raise typer.Exit(USAGE) from error


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A rich progress bar with time left, on standard error, and only on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        yield progress
