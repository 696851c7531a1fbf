"""One self-contained HTML page about one checkpoint, or about several side by side.

Order: the verdict; contents; the checkpoint itself, running in the page; the evidence; the figures, numbered and
titled; and what a supplement must say about where the numbers come from. plotly.js is inlined once. A content security
policy forbids every request, and whatever a stranger typed into a name is escaped, or carried as JSON in which no `<`
stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from counting_interp.interp.figures.pages import json_script, theme_script
from counting_interp.interp.pages.live import model_payload
from counting_interp.interp.pages.page import asset, whole_page
from counting_interp.interp.pages.provenance import CITATION, provenance
from counting_interp.interp.pages.report_table import summary_table, verdict_card
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import printable

if TYPE_CHECKING:
    from counting_interp.interp.figures.drawing import Drawing
    from counting_interp.interp.pages.report_entry import Subject

GENERATOR = "interp report"
CONTENTS = (
    ("verdict", "Verdict"),
    ("live", "The model itself"),
    ("evidence", "Evidence"),
    ("figures", "Figures"),
    ("provenance", "Provenance"),
)


def report_html(subjects: Sequence[Subject], others: Sequence[Subject] = ()) -> str:
    """The whole page.

    Args:
        subjects: shown in full, side by side.
        others: only in the table at the top.
    """
    from plotly.offline import get_plotlyjs

    data, figures = _figures(subjects)
    for i, subject in enumerate(subjects):
        if isinstance(subject.model, CountingTransformer):
            data.append(json_script(f"model-{i}", model_payload(subject.model)))
    sections = {
        "verdict": _verdicts(subjects, others),
        "live": _live(subjects),
        "evidence": _columns([_titled(subject, subjects, subject.verdict._repr_html_()) for subject in subjects]),
        "figures": "".join(figures),
        "provenance": _columns([_titled(subject, subjects, provenance(subject)) for subject in subjects]) + CITATION,
    }
    title = _title(subjects, others)
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in CONTENTS)
    body = [f"<header><h1>{escape(title)}</h1></header>"]
    for anchor, name in CONTENTS:
        heading = "" if anchor == "verdict" else f"<h2>{name}</h2>"
        body.append(f'<section id="{anchor}">{heading}{sections[anchor]}</section>')
        if anchor == "verdict":
            body.append(f'<nav aria-label="Contents">{links}</nav>')
    scripts = [get_plotlyjs(), theme_script(), asset("model.js"), asset("live.js")]
    return whole_page(title, GENERATOR, asset("page.css"), body, data, scripts)


def _title(subjects: Sequence[Subject], others: Sequence[Subject]) -> str:
    n = len(subjects) + len(others)
    return f"How does {printable(subjects[0].title, 80)} count?" if n == 1 else f"How {n} checkpoints count"


def _verdicts(subjects: Sequence[Subject], others: Sequence[Subject]) -> str:
    """One card for one checkpoint; for several the table first, then the cards of those that are shown in full."""
    everyone = [*subjects, *others]
    table = summary_table(everyone) if len(everyone) > 1 else ""
    rest = ""
    if others:
        names = " and ".join(escape(printable(subject.title, 80)) for subject in subjects)
        rest = f'<p class="note">Shown in full below: {names}. Name others with --show.</p>'
    return table + rest + _columns([verdict_card(subject) for subject in subjects])


def _titled(subject: Subject, subjects: Sequence[Subject], content: str) -> str:
    title = f"<h3>{escape(printable(subject.title))}</h3>" if len(subjects) > 1 else ""
    return f'<div class="part">{title}{content}</div>'


def _live(subjects: Sequence[Subject]) -> str:
    """The models, with one field for the sequence: what is typed is read by all of them that have its T and L."""
    note = (
        '<p class="note">This page carries the weights and runs them. Type a sequence, or click a token and use the '
        "arrow keys: left and right move, up and down change the token.</p>"
    )
    shared = '<div class="card" data-shared></div>' if len(subjects) > 1 else ""
    elsewhere = '<p class="note">This page can run counting transformers only; this is a model of another kind.</p>'
    runs = [isinstance(subject.model, CountingTransformer) for subject in subjects]
    live = [f'<div data-live="model-{i}"></div>' if can else elsewhere for i, can in enumerate(runs)]
    places = [_titled(subject, subjects, place) for subject, place in zip(subjects, live, strict=True)]
    return (note + shared if any(runs) else "") + _columns(places)


def _columns(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f'<div class="side-by-side">{"".join(parts)}</div>'


def _figures(subjects: Sequence[Subject]) -> tuple[list[str], list[str]]:
    """Figures of the same name stand side by side under one number, in the order in which they first appear."""
    names = list(dict.fromkeys(drawing.name for subject in subjects for drawing in subject.drawings))
    data: list[str] = []
    shown: list[str] = []
    for number, name in enumerate(names, 1):
        row = []
        for i, subject in enumerate(subjects):
            for drawing in subject.drawings:
                if drawing.name == name:
                    whose = f" ({printable(subject.title, 60)})" if len(subjects) > 1 else ""
                    heading = f"Figure {number}. {drawing.title}{whose}"
                    row.append(_figure(f"figure-{i}-{name}", heading, drawing, data))
        shown.append(_columns(row))
    return data, shown if len(subjects) > 1 else ['<div class="gallery">', *shown, "</div>"]


def _figure(identifier: str, heading: str, drawing: Drawing, data: list[str]) -> str:
    data.append(json_script(f"{identifier}-data", drawing.to_json()))
    return (
        f'<figure id="{identifier}"><h3>{escape(heading)}</h3><div class="plot" data-plot="{identifier}-data"></div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )
