"""A figure as a page of its own, and what every page with figures shares: data that cannot become markup, and the
script that draws it in the reader's colours."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from counting_interp.interp.figures.drawing import Drawing

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5b6470}
@media (prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e9ee;--soft:#a0a9b5}}
body{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;margin:0}
main{max-width:760px;margin:0 auto;padding:1.5rem 1rem}
h1{font-size:1.3rem;margin:0}.about,.numbers{color:var(--soft);margin:.2rem 0 1rem}a{color:inherit}
.plot{overflow-x:auto}
"""


def theme_script() -> str:
    """Draws every `data-plot` of a page; needs plotly.js before it."""
    return (files("counting_interp.interp.figures") / "assets" / "theme.js").read_text(encoding="utf-8")


def json_script(identifier: str, value: Any) -> str:
    """JSON that a script can read and an HTML parser cannot leave: no `<`, `>` or `&` stands in it."""
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f'<script type="application/json" id="{identifier}">{text}</script>'


def figure_page(drawing: Drawing) -> str:
    """One figure, its title, caption and a link to its numbers, as an HTML page next to `plotly.min.js`."""
    name, title, about = escape(drawing.name), escape(drawing.title), escape(drawing.about)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{STYLE}</style></head><body><main>",
            f'<h1>{title}</h1><p class="about">{about}</p>',
            f'<div id="figure" class="plot" data-plot="figure-data"></div><p>{escape(drawing.caption)}</p>',
            f'<p class="numbers"><a href="{name}.csv">The numbers as CSV</a></p></main>',
            json_script("figure-data", drawing.to_json()),
            f'<script src="plotly.min.js"></script><script>{theme_script()}</script></body></html>\n',
        ]
    )
