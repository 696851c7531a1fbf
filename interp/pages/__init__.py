"""Builds HTML pages: one frame with one content security policy, assets, and data escaped for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from plotly.colors import PLOTLY_SCALES

from counting_interp.interp.figures import style

COLOURS = {  # light and dark; the one definition for Python, CSS and JavaScript
    "paper": ("#ffffff", "#14171c"),
    "ink": ("#1b1f24", "#e6e9ee"),
    "soft": ("#5b6470", "#a0a9b5"),
    "line": ("#d5dae1", "#343b45"),
    "card": ("#f6f8fa", "#1c2128"),
    "blue": ("#0072b2", "#56b4e9"),
    "orange": ("#d55e00", "#f0924a"),
    "green": ("#009e73", "#2cc295"),
}
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(
    title: str,
    generator: str,
    body: Sequence[str],
    data: Mapping[str, Any],
    scripts: Sequence[str],
    *,
    beside: Sequence[str] = (),
    kind: str = "",
    pictures: bool = False,
) -> str:
    """One HTML file that opens with the network off.

    Args:
        title: plain text; it is escaped.
        generator: the command that makes the page.
        body: markup; its parts are joined.
        data: JSON for the scripts, by the id of its element.
        scripts: JavaScript, in order. The constant `LOOK`, which holds the colours, is defined before.
        beside: script files next to the page, which run first. The policy then allows files next to the page.
        kind: the class of the body, for CSS rules of one kind of page.
        pictures: whether the page shows image files next to it.
    """
    policy = POLICY.replace("'unsafe-inline'", "'unsafe-inline' 'self' file:", 1) if beside else POLICY
    policy += " 'self' file:" if pictures else ""  # the rule for images is the last one
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f'<meta name="generator" content="{generator}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_page_style()}</style></head>",
            f'<body class="{kind}"><main>',
            *body,
            "</main>",
            *(json_script(identifier, value) for identifier, value in data.items()),
            *(f'<script src="{name}"></script>' for name in beside),
            *(f"<script>{script}</script>" for script in (look_script(), *scripts)),
            "</body></html>\n",
        ]
    )


def made_by(generator: str) -> Callable[[bytes], bool]:
    """A function that tells from the first bytes of a file whether `generator` wrote it."""
    mark = f'name="generator" content="{generator}"'.encode()
    return lambda head: mark in head


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return (files("counting_interp.interp.pages") / "assets" / name).read_text(encoding="utf-8")


def json_script(identifier: str, value: Any) -> str:
    """JSON escaped for a `<script>` tag: it contains no `<`, `>` or `&`."""
    return f'<script type="application/json" id="{identifier}">{_inert(value)}</script>'


def _inert(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def look_script() -> str:
    """Defines `LOOK` for scripts: the colours of mechanisms, of the scale of figures, and of light and dark pages."""
    pages = {name: {key: pair[i] for key, pair in COLOURS.items()} for i, name in enumerate(("light", "dark"))}
    mechanisms = {name: vars(look) for name, look in style.MECHANISMS.items()}
    scale = [[stop, colour] for stop, colour in PLOTLY_SCALES[style.SEQUENTIAL]]
    return f"const LOOK = {_inert({'mechanisms': mechanisms, 'scale': scale, **pages})};"


def variables(dark: bool) -> str:
    """All colours as CSS variables."""
    lines = [f"--{name}:{pair[dark]};" for name, pair in COLOURS.items()]
    for name, look in style.MECHANISMS.items():
        colour, text, on = (look.dark, look.dark, look.on_dark) if dark else (look.colour, look.text, look.on)
        lines.append(f"--{name}:{colour};--{name}-text:{text};--on-{name}:{on};")
    return "".join(lines)


def _page_style() -> str:
    """CSS of all pages: colours follow the reader's system and are light in print; each mechanism has a class."""
    light, dark = (f":root{{{variables(dark)}}}" for dark in (False, True))
    names = "".join(f".label-{name}{{--label:var(--{name});--on-label:var(--on-{name})}}" for name in style.MECHANISMS)
    colours = f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}{names}"
    return colours + asset("live.css") + asset("page.css")
