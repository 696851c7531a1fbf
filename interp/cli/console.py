"""What all commands say in the same way: results on standard output, everything else on standard error."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from counting_interp.util.files import is_replaceable
from counting_interp.util.plain_json import to_json

if TYPE_CHECKING:
    from rich.progress import Progress

DONE, FAILED, USAGE, CHECKPOINT_REFUSED, INTERRUPTED = 0, 1, 2, 3, 130
SCHEMA_VERSION = 1
quiet = False  # set by `interp --quiet`


def shows_progress() -> bool:
    """Whether a person is there to see how far it is, and did not ask for silence."""
    return sys.stderr.isatty() and not quiet


def warn(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"interp: {message}", err=True)


def announce(output: Path) -> None:
    """Print where the page is, and on a terminal how to open it, unless it went to the standard output itself."""
    if is_replaceable(output):
        typer.echo(output)
        if shows_progress():
            size = f"{output.stat().st_size / 1e6:.1f} MB"
            typer.echo(f"wrote {size}; open it in a browser: {output.resolve().as_uri()}", err=True)


def is_an_interruption(error: BaseException | None) -> bool:
    """Whether an exception comes from Ctrl-C. Python 3.11 turns one during the making of a class into RuntimeError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def print_json(results: list[dict[str, Any]], *, version: int = SCHEMA_VERSION, **fields: Any) -> None:
    """Print the one JSON document of a `--json` run: `{"schema_version": 1, "results": [...], ...}`.

    Args:
        version: higher for a command whose fields have changed their meaning.
        fields: further entries of the document.
    """
    document = {"schema_version": version, "results": results, **fields}
    typer.echo(to_json(document, indent=2))


@contextmanager
def stop_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C, SIGTERM (by which cluster managers stop a job) and a closed terminal call `handler` meanwhile.

    A signal that is ignored, as SIGHUP under `nohup`, stays ignored.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def usage_errors() -> Iterator[None]:
    """A ValueError, as configurations and samplers raise it, ends the command with exit code 2."""
    try:
        yield
    except ValueError as error:
        warn(str(error))
        raise typer.Exit(USAGE) from error


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """A sign of life on standard error, only on a terminal."""
    if shows_progress():
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
    else:
        yield


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A rich progress bar with time left, on standard error, only on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shows_progress()) as progress:
        yield progress


@contextmanager
def stage_bar(first: str) -> Iterator[Callable[[str, float], None]]:
    """A progress bar, as the function that shows a stage's name and the share of it that is done."""
    with progress_bar() as bar:
        task = bar.add_task(first, total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)
