"""Where a page is made: one frame with one content policy, assets, and data that cannot become markup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from counting_interp.interp.figures import style

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
) -> str:
    """One HTML file that opens with the network off.

    Args:
        title: any text; it is escaped.
        generator: the command that made the page.
        body: markup.
        data: JSON for the scripts, by the id of its element.
        scripts: JavaScript, in order; colours are there before it, as `MECHANISMS`.
        beside: files next to the page that hold scripts to run first. The policy allows them, and nothing else.
        kind: a class of the body, for rules that hold on one kind of page only.
    """
    policy = POLICY.replace("'unsafe-inline'", "'unsafe-inline' 'self' file:", 1) if beside else POLICY
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f'<meta name="generator" content="{generator}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_colours()}{asset('page.css')}</style></head>",
            f'<body class="{kind}"><main>',
            *body,
            "</main>",
            *(json_script(identifier, value) for identifier, value in data.items()),
            *(f'<script src="{name}"></script>' for name in beside),
            *(f"<script>{script}</script>" for script in (f"const MECHANISMS = {_mechanisms()};", *scripts)),
            "</body></html>\n",
        ]
    )


def asset(name: str) -> str:
    """A file of `assets/`."""
    return (files("counting_interp.interp.pages") / "assets" / name).read_text(encoding="utf-8")


def json_script(identifier: str, value: Any) -> str:
    """JSON that a script can read and an HTML parser cannot leave: no `<`, `>` or `&` stands in it."""
    return f'<script type="application/json" id="{identifier}">{_inert(value)}</script>'


def _inert(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _mechanisms() -> str:
    return _inert({name: vars(look) for name, look in style.MECHANISMS.items()})


def _colours() -> str:
    """The colours of mechanisms as variables of CSS, light and dark, and a class for each."""
    looks = style.MECHANISMS.items()
    light = "".join(f"--{name}:{look.colour};--{name}-text:{look.text};--on-{name}:{look.on};" for name, look in looks)
    dark = "".join(
        f"--{name}:{look.dark};--{name}-text:{look.dark};--on-{name}:{look.on_dark};" for name, look in looks
    )
    classes = "".join(f".label-{name}{{--label:var(--{name});--on-label:var(--on-{name})}}" for name, _ in looks)
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}"
