"""The verdict as a reader meets it first: its label in colour, one sentence, and the answers it follows from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from counting_interp.interp.pages.provenance import accuracy_words
from counting_interp.interp.verdict.verdict import describe
from counting_interp.util.errors import printable

if TYPE_CHECKING:
    from counting_interp.interp.pages.report_entry import Subject


ANSWERS = (  # number of the verdict, in words, colour of its bar
    ("kept", "left without attention's comparison", "s"),
    ("with_t", "follows the token attention compared", "t"),
    ("with_s", "follows the token on the self path", "s"),
)


def verdict_card(subject: Subject) -> str:
    """Label, meaning, and a bar for each answer."""
    verdict = subject.verdict
    bars = "".join(_bar(words, verdict.numbers[name], kind) for name, words, kind in ANSWERS)
    meaning = verdict.meaning[0].upper() + verdict.meaning[1:]
    return (
        f'<div class="card verdict label-{verdict.label}"><p class="head"><span class="chip">{verdict.label}</span>'
        f'<span class="name">{escape(printable(subject.title))}</span></p>'
        f'<p class="says">{escape(meaning)}. {escape(accuracy_words(subject))}</p>'
        f'<div class="answers">{bars}</div></div>'
    )


def _bar(words: str, number: float, kind: str) -> str:
    width = 100 * min(max(number, 0), 1)
    bar = f'<span class="bar"><i class="{kind}" style="width:{width:.0f}%"></i></span>'
    return f'<span>{escape(words)}</span>{bar}<span class="number">{number:.2f}</span>'


def summary_table(subjects: Sequence[Subject]) -> str:
    """One line for each checkpoint."""
    heads = dict.fromkeys(("checkpoint", "verdict", "case", "model", "accuracy"), "")
    heads |= {name.replace("_", " "): words for name, words, _ in ANSWERS}
    lines = []
    for subject in subjects:
        verdict = subject.verdict
        chip = f'<span class="chip label-{verdict.label}">{verdict.label}</span>'
        numbers = (f"{verdict.accuracy:.1%}", *(f"{verdict.numbers[name]:.2f}" for name, _, _ in ANSWERS))
        cells = [
            f"<td>{escape(printable(subject.title, 80))}</td>",
            f"<td>{chip}</td>",
            f"<td>{escape(verdict.case or verdict.title)}</td>",
            f"<td>{escape(describe(verdict.config))}</td>",
        ]
        cells += [f'<td class="number">{number}</td>' for number in numbers]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th title="{escape(words)}">{name}</th>' for name, words in heads.items())
    return f'<div class="scroll"><table class="summary"><tr>{head}</tr>{"".join(lines)}</table></div>'
