"""What all commands say in the same way: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

DONE, FAILED, USAGE, CHECKPOINT_REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
SCHEMA_VERSION = 1


def complain(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"interp: {message}", err=True)


def print_json(results: list[dict[str, Any]], **fields: Any) -> None:
    """The one JSON document of a `--json` run: `{"schema_version": 1, "results": [...], ...}`."""
    document = {"schema_version": SCHEMA_VERSION, "results": results, **fields}
    typer.echo(json.dumps(finite(document), indent=2, ensure_ascii=True, allow_nan=False))


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity replaced by None, which JSON can carry."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


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
