"""The command line: finds the commands, shows their help, runs one, and turns every outcome into an exit code.

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
from inspect import cleandoc, getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

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
from counting_interp.interp.cli.options import with_option_groups
from counting_interp.util.files import OutputError

# Panels of the help, the commands in each, and the file of each command, where a function or a group has its name.
PANELS = {
    "Ask": {"classify": "classify", "probe": "probe", "inspect": "inspect", "zoo": "inspect"},
    "Look": {"report": "pages", "figures": "figures", "atlas": "pages"},
    "Make": {"train": "train", "construct": "construct", "repair": "repair", "sweep": "sweep"},
    "Prove": {"prove": "prove", "check": "prove", "bounds": "construct"},
    "More": {"llm": "llm"},
}
RENAMED = {"verify": "prove"}  # commands and options of version 0.3
RENAMED_OPTIONS = {"--verify": "--prove", "--repair": "--redo-missing", "--proof-time": "--time"}
EXAMPLES = {
    "atlas": ("interp atlas", "interp atlas SWEEP -o map.html"),
    "bounds": ("interp bounds -T 32 -L 10",),
    "check": ("interp check proof.json model.pt",),
    "classify": ("interp classify bos+sftm-d64-p64-proved", "interp classify runs/ --json", "interp classify zoo"),
    "construct": ("interp construct --list", "interp construct rc-bos -T 32 -L 10 -o rc.pt"),
    "figures checkpoints": ("interp figures bos-d45-p4-proved --format html", "interp figures model.snapshots/"),
    "figures map": ("interp figures map SWEEP -o out/",),
    "figures paper": ("interp figures paper -o out/",),
    "figures phase": ("interp figures phase SWEEP -o out/",),
    "inspect": ("interp inspect model.pt", "interp inspect runs/"),
    "llm": ("interp llm --model FOLDER -o out/llm --lists 5 --dry-run",),
    "probe": ("interp probe --list", "interp probe attention bos-d45-p4 --sequence BBCBBBDEEE"),
    "repair": ("interp repair dot-d64-p64 -o proved.pt",),
    "report": ("interp report bos-d45-p4-proved -o report.html", "interp report zoo --show bos-d45-p4-proved"),
    "train": ("interp train --model bos+sftm -d 45 -p 4 -o model.pt", "interp train -o model.pt --resume"),
    "prove": ("interp prove bos-d45-p4-proved", "interp prove zoo --json"),
    "zoo": ("interp zoo",),
    "sweep run": ("interp sweep run DIR --preset quick --classify", "interp sweep run DIR --preset fig1 --workers 8"),
    "sweep classify": ("interp sweep classify DIR --prove",),
    "sweep rescue": ("interp sweep rescue DIR",),
    "sweep presets": ("interp sweep presets",),
    "sweep status": ("interp sweep status DIR",),
    "sweep export": ("interp sweep export DIR -o table.csv",),
    "sweep compare": ("interp sweep compare DIR",),
}
VALUES = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}


class _PlainValues:
    """Says in one word what an option takes; typer would write `<bool>` and `<int range> [0<=x<=256]`.

    Bounds are named to those who cross them.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param._get_number_range_help_str = lambda: None
            if param.param_type_name == "argument":
                many = "..." if param.nargs != 1 else ""
                param.metavar = (param.metavar or param.name.upper()).rstrip(" .") + many
                param.display_type_rich = lambda ctx: None
                param.get_usage_pieces = lambda ctx, p=param: [p.metavar if p.required else f"[{p.metavar}]"]
            elif getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None:
                param.metavar = _value(getattr(param, "type_descriptor", None))
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        names = {name for param in self.get_params(ctx) for name in param.opts}
        for word in (arg.partition("=")[0] for arg in args):
            if RENAMED_OPTIONS.get(word) in names:
                ctx.fail(f"'{word}' is now '{RENAMED_OPTIONS[word]}'")
        return super().parse_args(ctx, args)  # type: ignore[misc]


def _value(kind: Any) -> str | None:
    if choices := getattr(kind, "choices", None):
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return next((word for name, word in VALUES.items() if name in str(getattr(kind, "annotation", ""))), None)


class _Group(_PlainValues, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in RENAMED:
            ctx.fail(f"'{args[0]}' is now '{RENAMED[args[0]]}'")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="interp",
    cls=_Group,
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


def _prepare(commands: typer.Typer, group: str = "") -> None:
    """Give every command its options, its help with joined lines, and its examples."""
    for command in commands.registered_commands:
        name = command.name or str(getattr(command.callback, "__name__", ""))
        examples = EXAMPLES.get(f"{group}{name}", ())
        command.cls = _with_plain_values(command.cls, TyperCommand)
        command.help = _joined(command.help or getdoc(command.callback) or "")
        command.epilog = "\n\n".join(["Examples:", *examples]) if examples else None
        command.callback = command.callback and with_option_groups(command.callback)


def _with_plain_values(cls: Any, otherwise: type[Any]) -> Any:
    base = cls if isinstance(cls, type) else otherwise  # typer has a placeholder where none was given
    return type(base.__name__, (_PlainValues, base), {})


def _joined(text: str) -> str:
    """Paragraphs of one line each, because terminals have any width; an indented paragraph stays as it is."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith((" ", "\b")) else part.replace("\n", " ") for part in paragraphs)


for panel, files in PANELS.items():
    for command, file in files.items():
        found = getattr(import_module(f"{__name__}.{file}"), command)  # what is heavy is imported when it runs
        if isinstance(found, typer.Typer):
            _prepare(found, f"{command} ")
            cls = _with_plain_values(found.info.cls, TyperGroup)
            app.add_typer(found, name=command, cls=cls, rich_help_panel=panel)
        else:
            app.command(command, rich_help_panel=panel)(found)
_prepare(app)


def _open_closed_streams() -> None:
    """Standard streams that the caller closed (`>&-`) lead nowhere.

    Left closed, they would be `None`, and the next file that is opened, a database or a checkpoint, would take the
    number of the standard output.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (open as long as the process)


def main() -> None:
    """Run one command. Raises SystemExit with one of the exit codes above."""
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
    except BrokenPipeError:  # the reader has closed the pipe (`| head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # the same, met by click or rich
            sys.exit(DONE)
        raise
    except InterpError as error:
        warn(str(error))
        refused, usage = isinstance(error, CheckpointError), isinstance(error, OutputError)
        sys.exit(CHECKPOINT_REFUSED if refused else USAGE if usage else FAILED)
    except OSError as error:  # a folder that is not there, a full disk, no permission to write
        warn(printable(f"{error.filename or 'input or output'}: {error.strerror or error}"))
        sys.exit(FAILED)
    except BaseException as error:
        if not is_an_interruption(error):
            raise
        warn("interrupted")
        sys.exit(INTERRUPTED)
