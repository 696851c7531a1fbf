"""What pages with a live model share: a policy that forbids every request, and their scripts and style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def asset(name: str) -> str:
    """A file of `assets/`."""
    return (files("counting_interp.interp.pages") / "assets" / name).read_text(encoding="utf-8")


def whole_page(
    title: str, generator: str, style: str, body: Sequence[str], data: Sequence[str], scripts: Sequence[str]
) -> str:
    """One file that opens with the network off. `title` is any text; `generator` says which command made it."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f'<meta name="generator" content="{generator}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body><main>",
            *body,
            "</main>",
            *data,
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>",
        ]
    )
