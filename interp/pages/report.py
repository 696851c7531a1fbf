"""The report: one self-contained page about one checkpoint, or about several side by side.

Order: the verdict; contents; the checkpoint itself, running in the page; the evidence; the figures; and where the
numbers come from. plotly.js is inlined once. What is typed into a name is escaped, or carried as JSON in which
no `<` stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counting_interp.interp.pages import asset, page
from counting_interp.interp.pages.live import live_script, model_payload, why_not_live
from counting_interp.interp.pages.report_entry import CITATION, ReportEntry, accuracy_words, provenance
from counting_interp.interp.verdict.verdict import NAMES, SHARES
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import write_atomically
from counting_interp.util.text import describe, sampled, two_places

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.pages.report_entry import ReportEntry

GENERATOR = "interp report"
LEADING = "transplants"  # the figure that stands beside the verdict
SECOND = "cue-conflict"  # the one that is open below; the others are folded until they are asked for
BADGES = {"certified": "proved", "refuted": "a wrong sequence is known", "undecided": "not proved"}
CONTENTS = (
    ("verdict", "Verdict"),
    ("live", "The model itself"),
    ("evidence", "Evidence"),
    ("figures", "Figures"),
    ("provenance", "Provenance"),
)


def report_html(subjects: Sequence[ReportEntry], others: Sequence[ReportEntry] = ()) -> str:
    """The whole page.

    Args:
        subjects: shown in full, side by side.
        others: only in the table at the top.
    """
    from plotly.offline import get_plotlyjs

    data, leading, figures = _figures(subjects)
    for i, subject in enumerate(subjects):
        if isinstance(subject.model, CountingTransformer) and why_not_live(subject.model) is None:
            wrong = getattr(subject.proof, "sequence", None)  # of a counterexample
            data[f"model-{i}"] = {**model_payload(subject.model), "wrong": None if wrong is None else list(wrong)}
    sections = {
        "verdict": f'<div class="{"lead" if len(subjects) == 1 else ""}">{_verdicts(subjects, others)}{leading}</div>',
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
    scripts = [get_plotlyjs(), asset("theme.js"), live_script(), asset("report.js")]
    return page(title, GENERATOR, body, data, scripts)


def _title(subjects: Sequence[ReportEntry], others: Sequence[ReportEntry]) -> str:
    n = len(subjects) + len(others)
    return f"How does {printable(subjects[0].title, 80)} count?" if n == 1 else f"How {n} checkpoints count"


def _verdicts(subjects: Sequence[ReportEntry], others: Sequence[ReportEntry]) -> str:
    """One card for one checkpoint; for several the table first, then the cards of those that are shown in full."""
    everyone = [*subjects, *others]
    table = summary_table(everyone) if len(everyone) > 1 else ""
    rest = ""
    if others:
        names = " and ".join(escape(printable(subject.title, 80)) for subject in subjects)
        rest = f'<p class="note">Shown in full below: {names}. Name others with --show.</p>'
    return table + rest + _columns([verdict_card(subject) for subject in subjects])


def _titled(subject: ReportEntry, subjects: Sequence[ReportEntry], content: str) -> str:
    title = f"<h3>{escape(printable(subject.title))}</h3>" if len(subjects) > 1 else ""
    return f'<div class="part">{title}{content}</div>'


def _live(subjects: Sequence[ReportEntry]) -> str:
    """The models, with one field for the sequence: what is typed is read by all of them that have its T and L."""
    note = (
        '<p class="note">This page carries the weights and runs them. Type a sequence, or click a token and use the '
        "arrow keys: left and right move, up and down change the token.</p>"
    )
    shared = '<div class="card" data-shared></div>' if len(subjects) > 1 else ""
    reasons = [why_not_live(subject.model) for subject in subjects]
    live = [
        f'<div data-live="model-{i}"></div>' if reason is None else f'<p class="note">Not live: {escape(reason)}.</p>'
        for i, reason in enumerate(reasons)
    ]
    parts = [_titled(subject, subjects, part) for subject, part in zip(subjects, live, strict=True)]
    return (note + shared if None in reasons else "") + _columns(parts)


def _columns(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f'<div class="side-by-side">{"".join(parts)}</div>'


def _figures(subjects: Sequence[ReportEntry]) -> tuple[dict[str, Any], str, list[str]]:
    """Figures of the same name stand side by side, in the order in which they first appear. The picture of the verdict
    leads; it comes apart from the others, of which one is open and the rest are folded."""
    names = list(dict.fromkeys(drawing.name for subject in subjects for drawing in subject.drawings))
    data: dict[str, Any] = {}
    shown: dict[str, str] = {}
    heads = {drawing.name: drawing.title for subject in subjects for drawing in subject.drawings}
    for name in names:
        row = []
        for i, subject in enumerate(subjects):
            for drawing in subject.drawings:
                if drawing.name == name:
                    whose = f" ({printable(subject.title, 60)})" if len(subjects) > 1 else ""
                    row.append(_figure(f"figure-{i}-{name}", f"{drawing.title}{whose}", drawing, data))
        shown[name] = _columns(row)
    leading = shown.pop(LEADING, "")
    second = shown.pop(min(shown, key=lambda name: not name.startswith(SECOND), default=""), "")
    folded = [
        f"<details><summary>{escape(heads[name])}</summary>{figures}</details>" for name, figures in shown.items()
    ]
    return data, leading, [second, *folded]


def _figure(identifier: str, heading: str, drawing: Figure, data: dict[str, Any]) -> str:
    data[f"{identifier}-data"] = drawing.to_json()
    return (
        f'<figure id="{identifier}"><h3>{escape(heading)}</h3><div class="plot" data-plot="{identifier}-data"></div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )


def verdict_card(subject: ReportEntry) -> str:
    """Label, meaning, and a bar for each share."""
    verdict = subject.verdict
    bars = "".join(_bar(NAMES[share.name], share.value, share.name) for share in verdict.shares)
    meaning = verdict.mechanism.words[0].upper() + verdict.mechanism.words[1:]
    return (
        f'<div class="card verdict label-{verdict.mechanism.group}"><p class="head">'
        f'<span class="chip">{escape(verdict.mechanism.value)}</span>'
        f'<span class="name">{escape(printable(subject.title))}</span>{_badge(subject)}</p>'
        f'<p class="says">{escape(meaning)} {escape(accuracy_words(subject))}</p>'
        f'<div class="answers">{bars}</div></div>'
    )


def _badge(subject: ReportEntry) -> str:
    """What was proved, where it was tried."""
    if subject.proof is None:
        return ""
    kind = {"certified": "", "refuted": " refuted"}.get(subject.proof.verdict, " open")
    words = BADGES.get(subject.proof.verdict, subject.proof.verdict)
    said = escape(printable(subject.verification, 200))
    return f'<span class="proof{kind}" title="{said}">{escape(words)}</span><span class="note">{said}</span>'


def _bar(words: str, number: float, kind: str) -> str:
    width = 100 * min(max(0.0, number), 1)  # nothing for NaN
    bar = f'<span class="bar"><i class="share-{kind}" style="width:{width:.0f}%"></i></span>'
    return f'<span>{escape(words)}</span>{bar}<span class="number">{two_places(number)}</span>'


def summary_table(subjects: Sequence[ReportEntry]) -> str:
    """One line for each checkpoint."""
    heads = ["checkpoint", "verdict", "model", "accuracy", *(f"share of {name}" for name in SHARES)]
    lines = []
    for subject in subjects:
        verdict = subject.verdict
        chip = f'<span class="chip label-{verdict.mechanism.group}">{escape(verdict.mechanism.value)}</span>'
        numbers = (sampled(verdict.accuracy), *(two_places(share.value) for share in verdict.shares))
        cells = [
            f"<td>{escape(printable(subject.title, 80))}</td>",
            f"<td>{chip}</td>",
            f"<td>{escape(describe(subject.model.config))}</td>",
        ]
        cells += [f'<td class="number">{escape(number)}</td>' for number in numbers]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="scroll"><table class="summary"><tr>{head}</tr>{"".join(lines)}</table></div>'


def write_report(subjects: Sequence[ReportEntry], output: Path, others: Sequence[ReportEntry] = ()) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, report_html(subjects, others).encode("utf-8"))
    except OSError as error:
        raise InterpError(f"cannot write {printable(str(output))}: {error.strerror}; choose another -o") from error
