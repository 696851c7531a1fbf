"""What `--help` shows of every command: its panel, its docstring with joined lines, its examples."""

from __future__ import annotations

import inspect
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, DefaultPlaceholder

# Panels of the help, the commands in each, and the file of each command, where a function or a group has its name.
PANELS = {
    "Ask": {"classify": "classify", "probe": "probe", "inspect": "inspect", "zoo": "inspect"},
    "Look": {"report": "pages", "figures": "figures", "atlas": "pages"},
    "Make": {"train": "train", "construct": "construct", "repair": "repair", "sweep": "sweep"},
    "Prove": {"prove": "prove", "check": "prove", "bounds": "construct"},
    "More": {"llm": "llm"},
}
RENAMED = {"verify": "prove"}  # commands of version 0.3
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
    """What an option takes, in one word; typer would write `<bool>` and `<int range> [0<=x<=256]`. Bounds are said to
    those who cross them."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            param._get_number_range_help_str = lambda: None
            if param.param_type_name == "argument":
                many = "..." if param.nargs != 1 else ""
                param.metavar = (param.metavar or param.name.upper()).rstrip(" .") + many
                param.display_type_rich = lambda ctx: None
                param.get_usage_pieces = lambda ctx, one=param: [one.metavar if one.required else f"[{one.metavar}]"]
            elif getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None:
                param.metavar = _value(getattr(param, "type_descriptor", None))
        return params


def _value(kind: Any) -> str | None:
    if choices := getattr(kind, "choices", None):
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return next((word for name, word in VALUES.items() if name in str(getattr(kind, "annotation", ""))), None)


class Group(_PlainValues, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in RENAMED:
            ctx.fail(f"'{args[0]}' is now '{RENAMED[args[0]]}'")
        return super().resolve_command(ctx, args)


def prepare(app: typer.Typer, parents: str = "") -> None:
    """Give every command and group below `app` its panel, help and examples."""
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    for command in app.registered_commands:
        name = _name(command)
        command.cls = _with_plain_values(command.cls, TyperCommand)
        command.help = joined(command.help or inspect.getdoc(command.callback) or "")
        examples = EXAMPLES.get(f"{parents}{name}", ())
        command.epilog = "\n\n".join(["Examples:", *examples]) if examples else None
        command.rich_help_panel = panel_of.get(name, "More") if not parents else command.rich_help_panel
    for group in app.registered_groups:
        name = str(group.name or (group.typer_instance and group.typer_instance.info.name))
        inner = group.typer_instance.info.cls if group.typer_instance is not None else None
        group.cls = _with_plain_values(inner if isinstance(group.cls, DefaultPlaceholder) else group.cls, TyperGroup)
        group.rich_help_panel = panel_of.get(name, "More") if not parents else group.rich_help_panel
        if group.typer_instance is not None:
            prepare(group.typer_instance, f"{parents}{name} ")


def _with_plain_values(cls: Any, otherwise: type[Any]) -> Any:
    base = cls if isinstance(cls, type) else otherwise  # typer has a placeholder where none was given
    return type(base.__name__, (_PlainValues, base), {})


def _name(command: CommandInfo) -> str:
    return command.name or str(getattr(command.callback, "__name__", ""))


def joined(text: str) -> str:
    """Paragraphs of one line each, as terminals are of any width; a paragraph that is set apart stays as it is."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith((" ", "\b")) else part.replace("\n", " ") for part in paragraphs)
