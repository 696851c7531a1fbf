"""The command line: finds the commands, runs one, and turns every outcome into a documented exit code.

0    done ("unsolved" and "mixed" are results, not errors)
1    the run failed, or a property was refuted
2    usage
3    a checkpoint could not be read or was refused
130  interrupted
"""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from counting_interp.interp.cli import console
from counting_interp.interp.cli.console import (
    CHECKPOINT_REFUSED,
    DONE,
    FAILED,
    INTERRUPTED,
    USAGE,
    is_an_interruption,
    warn,
)
from counting_interp.interp.cli.help import PANELS, Group, prepare
from counting_interp.util.outputs import OutputError

app = typer.Typer(
    name="interp",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from counting_interp.util.text import installed_versions

        for name, version in installed_versions().items():
            typer.echo(f"{name} {version}")
        raise typer.Exit()


@app.callback()
def interp(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions that matter.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Results and errors only: no progress, no hints.")
    ] = False,
) -> None:
    """Find out how a small transformer counts.

    Models are files, folders, or names that `interp zoo` lists. A CPU is enough: such models keep a GPU waiting.
    """
    console.quiet = quiet


def _register(name: str, file: str) -> None:
    """Each file imports what is heavy only when its command runs."""
    command = getattr(import_module(f"{__name__}.{file}"), name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


for commands in PANELS.values():
    for command, file in commands.items():
        _register(command, file)
prepare(app)


def _open_closed_streams() -> None:
    """Standard streams that the caller closed (`>&-`) lead nowhere. Left closed, they would be `None`, and the next
    file that is opened, a database or a checkpoint, would take the number of the standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (open as long as the process)


def main() -> None:
    from counting_interp.util.errors import CheckpointError, InterpError, printable

    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that lacks a character gets its number, not a crash
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
            gc.freeze()  # at its end Python would search the objects of torch for garbage: 0.8 s with nothing to find
    except BrokenPipeError:  # the reader has gone (`| head`): everybody has what they wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # the same, met by click or rich
            sys.exit(DONE)
        raise
    except CheckpointError as error:
        warn(str(error))
        sys.exit(CHECKPOINT_REFUSED)
    except OutputError as error:
        warn(str(error))
        sys.exit(USAGE)
    except InterpError as error:
        warn(str(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        warn("interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:  # a folder that is not there, a full disk, no permission to write
        warn(printable(f"{error.filename or 'input or output'}: {error.strerror or error}"))
        sys.exit(FAILED)
    except Exception as error:
        if not is_an_interruption(error):
            raise
        warn("interrupted")
        sys.exit(INTERRUPTED)
