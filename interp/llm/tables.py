"""An evaluation as tables: every answer, the accuracy of every cell, and the confusion matrices behind the figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from interp.llm.result import Cell, Evaluation

ALL = "all"


def answers_csv(result: Evaluation) -> str:
    """One row per question."""
    place = ["sampling", "category", "prompt", "list", "items", "asked"]
    shares = [f"p{count}" for count in range(result.length + 1)]
    return _csv([*place, "truth", "scored", "generated", "text", *shares], _answer_rows(result))


def _answer_rows(result: Evaluation) -> Iterator[list[Any]]:
    for outcome in result.outcomes:
        query = outcome.query
        shares = (f"{share:.6f}" for share in outcome.probabilities)
        place = [query.sampling, query.category, query.prompt, query.number, " ".join(query.items), query.target]
        yield [*place, query.truth, outcome.scored, outcome.generated, outcome.text, *shares]


def accuracy_rows(result: Evaluation) -> list[dict[str, Any]]:
    """One row per cell and measure, and one for everything together."""
    return [
        {
            "sampling": cell.sampling or ALL,
            "category": cell.category or ALL,
            "prompt": cell.prompt or ALL,
            "measure": measure,
            "accuracy": accuracy.value,
            "low": accuracy.low,
            "high": accuracy.high,
            "questions": accuracy.questions,
            "lists": accuracy.lists,
        }
        for measure in result.measures
        for cell in (*result.cells(), Cell())
        for accuracy in (result.accuracy(cell, measure),)
    ]


def accuracy_csv(result: Evaluation) -> str:
    rows = accuracy_rows(result)
    return _csv(list(rows[0]), (_rounded(row.values()) for row in rows))


def confusion_csv(result: Evaluation) -> str:
    """One row per cell, measure and true count; `other` is no number, or one that no list can give."""
    answers = [*(f"answer{count}" for count in range(result.length + 1)), "other"]
    rows = (
        [cell.sampling, cell.category, cell.prompt, measure, truth, *row]
        for measure in result.measures
        for cell in result.cells()
        for truth, row in enumerate(result.confusion(cell, measure).counts.tolist())
    )
    return _csv(["sampling", "category", "prompt", "measure", "truth", *answers], rows)


def accuracy_html(result: Evaluation) -> str:
    """The accuracy of every cell, for a notebook."""
    head = "".join(f"<th>{name}</th>" for name in ("sampling", "category", "prompt", *result.measures))
    rows = []
    for cell in (*result.cells(), Cell()):
        names = [name or ALL for name in (cell.sampling, cell.category, cell.prompt)]
        values = [*names, *(str(result.accuracy(cell, measure)) for measure in result.measures)]
        rows.append("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in values) + "</tr>")
    return f"<table><caption>{escape(result.model)}</caption><tr>{head}</tr>{''.join(rows)}</table>"


def _rounded(values: Iterable[Any]) -> list[Any]:
    return [f"{value:.6f}" if isinstance(value, float) else value for value in values]


def _csv(header: list[str], rows: Iterable[list[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return buffer.getvalue()
