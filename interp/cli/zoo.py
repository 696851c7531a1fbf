"""`interp zoo`: the bundled models, a line each, from the heads of their files alone."""

from __future__ import annotations

import json as plain_json
import math
from pathlib import Path
from typing import Any

import typer

from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.cli.console import print_json
from counting_interp.interp.cli.options import Json
from counting_interp.util.text import columns


def register(app: typer.Typer) -> None:
    app.command("zoo")(zoo)


def zoo(json: Json = False) -> None:
    """List the bundled models: what each is and why it is there. Every command takes their names for files."""
    entries = [{"name": name, **_facts(zoo_path(name))} for name in zoo_names()]
    if json:
        print_json(entries)
        return
    table: list[tuple[str, ...]] = [("name", "T", "L", "accuracy", "why it is here")]
    for entry in entries:
        accuracy = "-" if entry["accuracy"] is None else f"{math.floor(1e4 * entry['accuracy']) / 100:.2f} %"
        table.append((entry["name"], str(entry["T"]), str(entry["L"]), accuracy, entry["why"]))
    typer.echo(columns(table))


def _facts(path: Path) -> dict[str, Any]:
    """From the metadata at the head of a bundled safetensors file, which needs no torch."""
    with path.open("rb") as file:
        head = plain_json.loads(file.read(int.from_bytes(file.read(8), "little")))
    metadata = plain_json.loads(head["__metadata__"]["counting-interp"])
    config = metadata["config"]
    return {
        **{size: config[size] for size in ("T", "L", "d", "p", "n_layers")},
        "accuracy": metadata.get("accuracy", {}).get("value"),
        "why": metadata.get("zoo", {}).get("why", ""),
    }
