"""One self-contained HTML page about one checkpoint, or about several side by side.

Order: the verdict and its evidence in plain words, what the file is, the figures, and the checkpoint itself running in
the page. plotly.js is inlined once. A content security policy forbids every request, and whatever a stranger typed
into a name is escaped, or carried as JSON in which no `<` stands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from interp.report.payload import model_payload
from models.errors import printable

if TYPE_CHECKING:
    from interp.classify import Verdict
    from interp.figures.drawing import Drawing
    from models import CountingTransformer

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


@dataclass(frozen=True)
class Subject:
    """A checkpoint and what was found about it."""

    title: str
    model: CountingTransformer
    verdict: Verdict
    drawings: Sequence[Drawing]


def report_html(subjects: Sequence[Subject]) -> str:
    """The whole page."""
    from plotly.offline import get_plotlyjs

    heading = " and ".join(printable(subject.title, 80) for subject in subjects)
    data, figures = _figures(subjects)
    data += [_data(f"model-{i}", model_payload(subject.model)) for i, subject in enumerate(subjects)]
    body = [
        f"<h1>How does {escape(heading)} count?</h1>",
        _columns([_verdict(subject) for subject in subjects]),
        "<h2>What was measured</h2>",
        *figures,
        '<div class="live"><h2>The model itself</h2>',
        '<p class="note">This page carries the checkpoint and runs it. Type a sequence, or click a token and use the '
        "arrow keys: left and right move, up and down change the token.</p>",
        _columns([_live(i, subject, len(subjects)) for i, subject in enumerate(subjects)]),
        "</div>",
    ]
    scripts = [get_plotlyjs(), *(_asset(name) for name in ("theme.js", "model.js", "live.js"))]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(heading)}</title><style>{_asset('page.css')}</style></head><body><main>",
            *body,
            "</main>",
            *data,
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>",
        ]
    )


def _asset(name: str) -> str:
    return (files("interp.report") / "assets" / name).read_text(encoding="utf-8")


def _data(identifier: str, value: Any) -> str:
    """JSON that a script can read and an HTML parser cannot leave: no `<`, `>` or `&` stands in it."""
    text = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f'<script type="application/json" id="{identifier}">{text}</script>'


def _columns(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f'<div class="side-by-side">{"".join(parts)}</div>'


def _verdict(subject: Subject) -> str:
    facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _facts(subject))
    return (
        f'<section class="card verdict"><h3>{escape(printable(subject.title))}</h3>'
        f'{subject.verdict._repr_html_()}<h3>The checkpoint</h3><table class="facts">{facts}</table></section>'
    )


def _facts(subject: Subject) -> list[tuple[str, str]]:
    config, metadata = subject.model.config, subject.model.metadata
    sizes = f"T = {config.T}, L = {config.L}, d = {config.d}, p = {config.p}, layers = {config.n_layers}"
    facts = [("model", config.name), ("sizes", sizes), ("trained weights", f"{config.num_parameters:,}")]
    mechanism = metadata.get("mechanism")
    if isinstance(mechanism, dict):
        facts.append(("label in the file", f"{mechanism.get('label')} ({mechanism.get('provenance')})"))
    facts += [("assumed", str(line)) for line in metadata.get("assumed", [])]
    return [(name, printable(text, 300)) for name, text in facts]


def _figures(subjects: Sequence[Subject]) -> tuple[list[str], list[str]]:
    """Figures of the same name stand side by side, in the order in which they first appear."""
    names = list(dict.fromkeys(drawing.name for subject in subjects for drawing in subject.drawings))
    data: list[str] = []
    shown: list[str] = []
    for name in names:
        row = []
        for i, subject in enumerate(subjects):
            found = [drawing for drawing in subject.drawings if drawing.name == name]
            row += [_figure(f"figure-{i}-{name}", drawing, data) for drawing in found] or ["<figure></figure>"]
        shown.append(_columns(row))
    return data, shown if len(subjects) > 1 else ['<div class="gallery">', *shown, "</div>"]


def _figure(identifier: str, drawing: Drawing, data: list[str]) -> str:
    data.append(_data(f"{identifier}-data", drawing.to_json()))
    return (
        f'<figure id="{identifier}"><div class="plot" data-plot="{identifier}-data"></div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )


def _live(index: int, subject: Subject, total: int) -> str:
    title = f"<h3>{escape(printable(subject.title))}</h3>" if total > 1 else ""
    return f'<section>{title}<div data-live="model-{index}"></div></section>'
