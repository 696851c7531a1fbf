"""The verdict as a reader meets it first: its label in colour, one sentence, and the answers it follows from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from counting_interp.interp.pages.provenance import accuracy_words
from counting_interp.interp.verdict import sentences
from counting_interp.util.errors import printable
from counting_interp.util.text import percent, two_places

if TYPE_CHECKING:
    from counting_interp.interp.pages.report_entry import Subject


def verdict_card(subject: Subject) -> str:
    """Label, meaning, and a bar for each share."""
    verdict = subject.verdict
    bars = "".join(_bar(sentences.NAMES[share.name], share.value, share.name) for share in verdict.shares)
    return (
        f'<div class="card verdict label-{verdict.mechanism.group}"><p class="head">'
        f'<span class="chip">{escape(verdict.mechanism.value)}</span>'
        f'<span class="name">{escape(printable(subject.title))}</span></p>'
        f'<p class="says">{escape(_sentence(verdict.mechanism.words))} {escape(accuracy_words(subject))}</p>'
        f'<div class="answers">{bars}</div></div>'
    )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _bar(words: str, number: float, kind: str) -> str:
    width = 100 * min(max(number, 0), 1)
    bar = f'<span class="bar"><i class="share-{kind}" style="width:{width:.0f}%"></i></span>'
    return f'<span>{escape(words)}</span>{bar}<span class="number">{two_places(number)}</span>'


def summary_table(subjects: Sequence[Subject]) -> str:
    """One line for each checkpoint."""
    heads = ["checkpoint", "verdict", "model", "accuracy", *(f"share of {name}" for name in sentences.SHARES)]
    lines = []
    for subject in subjects:
        verdict = subject.verdict
        chip = f'<span class="chip label-{verdict.mechanism.group}">{escape(verdict.mechanism.value)}</span>'
        numbers = (percent(verdict.accuracy), *(two_places(share.value) for share in verdict.shares))
        cells = [
            f"<td>{escape(printable(subject.title, 80))}</td>",
            f"<td>{chip}</td>",
            f"<td>{escape(sentences.describe(subject.model.config))}</td>",
        ]
        cells += [f'<td class="number">{number}</td>' for number in numbers]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="scroll"><table class="summary"><tr>{head}</tr>{"".join(lines)}</table></div>'
