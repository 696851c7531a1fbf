"""The verdict as a reader meets it first: its label in colour, one sentence, and the answers it follows from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from interp.report.provenance import accuracy_words
from models.errors import printable

if TYPE_CHECKING:
    from interp.report.subject import Subject


def verdict_card(subject: Subject) -> str:
    """Label, meaning, and a bar for each answer."""
    verdict = subject.verdict
    bars = "".join(
        f"<span>{escape(name)} score</span>"
        f'<span class="bar"><i class="{kind}" style="width:{100 * score:.0f}%"></i></span>'
        f'<span class="number">{score:.2f}</span>'
        for (name, score), kind in zip(verdict.scores.items(), "ts", strict=True)
    )
    meaning = verdict.meaning[0].upper() + verdict.meaning[1:]
    return (
        f'<div class="card verdict label-{verdict.label}"><p class="head"><span class="chip">{verdict.label}</span>'
        f'<span class="name">{escape(printable(subject.title))}</span></p>'
        f'<p class="says">{escape(meaning)}. {escape(accuracy_words(subject))}</p>'
        f'<div class="answers">{bars}</div></div>'
    )


def summary_table(subjects: Sequence[Subject]) -> str:
    """One line for each checkpoint."""
    heads = ("checkpoint", "verdict", "model", "accuracy", "RC score", "IC score")
    lines = []
    for subject in subjects:
        verdict = subject.verdict
        chip = f'<span class="chip label-{verdict.label}">{verdict.label}</span>'
        numbers = (f"{verdict.accuracy:.1%}", *(f"{score:.2f}" for score in verdict.scores.values()))
        cells = [
            f"<td>{escape(printable(subject.title, 80))}</td>",
            f"<td>{chip}</td>",
            f"<td>{escape(verdict.model)}</td>",
        ]
        cells += [f'<td class="number">{number}</td>' for number in numbers]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="scroll"><table class="summary"><tr>{head}</tr>{"".join(lines)}</table></div>'
