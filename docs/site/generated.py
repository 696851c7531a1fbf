"""What the site has of the code itself: the commands with their options, and pages in which models run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

FLAGSHIP = "bos+sftm-d64-p64-proved"
BESIDE = "dot+sftm-d64-p128-proved"


def commands() -> str:
    """The command line as Markdown: for every command what it does, its options, its examples."""
    from typer.main import get_command

    from counting_interp.interp.cli import PANELS, app

    found = get_command(app).commands  # type: ignore[attr-defined]
    parts: list[str] = []
    for panel, names in PANELS.items():
        parts.append(f"## {panel}")
        for name in names:
            parts += _command(found[name], f"interp {name}")
    return "\n\n".join(parts)


def _command(command: Any, called: str) -> list[str]:
    inner = getattr(command, "commands", None)
    if inner:
        parts = [f"### `{called}`", command.help or ""]
        return parts + [line for name, one in inner.items() for line in _command(one, f"{called} {name}")]
    level = "###" if called.count(" ") == 1 else "####"
    parts = [f"{level} `{called}`", command.help or ""]
    if command.epilog:
        examples = [line for line in command.epilog.split("\n\n")[1:] if line]
        parts.append("\n".join(["```sh", *examples, "```"]))
    rows = [row for parameter in command.params if (row := _row(parameter))]
    parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    return parts


def _row(parameter: Any) -> str:
    if getattr(parameter, "hidden", False) or "--help" in parameter.opts:
        return ""
    argument = parameter.param_type_name == "argument"
    value = parameter.metavar or ""
    names = value or parameter.name.upper() if argument else ", ".join([*parameter.opts, *parameter.secondary_opts])
    names += f" {value}" if value and not argument else ""
    words = (getattr(parameter, "help", None) or "").replace("\n", " ")
    default = parameter.default
    if default not in (None, False, (), "", True) and not callable(default) and not argument:
        words += f" Default: {default}."
    names, words = (text.replace("|", "\\|") for text in (names, words))
    return f"| `{names}` | {words} |"


def write_pages(folder: Path) -> None:
    """The report, the atlas, and one model by itself for the start page; what is there already stays."""
    for name, words in {"report.html": ["report", FLAGSHIP, BESIDE], "atlas.html": ["atlas"]}.items():
        if not (folder / name).exists():
            command = [sys.executable, "-m", "counting_interp", *words, "-o", str(folder / name)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (folder / "live.html").write_text(_live(), encoding="utf-8")


def _live() -> str:
    import counting_interp as ci
    from counting_interp.interp.pages import asset, page
    from counting_interp.interp.pages.live import live_script, model_payload

    payload = {**model_payload(ci.load(FLAGSHIP)), "wrong": None}
    scripts = [asset("theme.js"), live_script(), asset("report.js")]
    return page(FLAGSHIP, "make docs", ['<div data-live="model-0"></div>'], {"model-0": payload}, scripts)
