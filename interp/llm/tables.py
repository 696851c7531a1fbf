"""An evaluation as tables: every answer, the accuracy of every cell, and the confusion matrices behind the figures."""

from __future__ import annotations

from html import escape
from typing import Any

from counting_interp.interp.llm.result import Evaluation, QueryGroup
from counting_interp.util.tables import write_csv

ALL = "all"


def answers_csv(result: Evaluation) -> str:
    """One row per question."""
    return write_csv(
        {
            "sampling": outcome.query.sampling,
            "category": outcome.query.category,
            "prompt": outcome.query.prompt,
            "list": outcome.query.number,
            "items": " ".join(outcome.query.items),
            "asked": outcome.query.target,
            "truth": outcome.query.truth,
            "scored": outcome.scored,
            "generated": outcome.generated,
            "text": outcome.text,
            **{f"p{count}": f"{share:.6f}" for count, share in enumerate(outcome.probabilities)},
        }
        for outcome in result.outcomes
    )


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
        for cell in (*result.cells(), QueryGroup())
        for accuracy in (result.accuracy(cell, measure),)
    ]


def accuracy_csv(result: Evaluation) -> str:
    return write_csv(
        {name: f"{value:.6f}" if isinstance(value, float) else value for name, value in row.items()}
        for row in accuracy_rows(result)
    )


def confusion_csv(result: Evaluation) -> str:
    """One row per cell, measure and true count; `other` is no number, or one that no list can give."""
    answers = [*(f"answer{count}" for count in range(result.length + 1)), "other"]
    return write_csv(
        {
            "sampling": cell.sampling,
            "category": cell.category,
            "prompt": cell.prompt,
            "measure": measure,
            "truth": truth,
            **dict(zip(answers, row, strict=True)),
        }
        for measure in result.measures
        for cell in result.cells()
        for truth, row in enumerate(result.confusion(cell, measure).counts.tolist())
    )


def accuracy_html(result: Evaluation) -> str:
    """The accuracy of every cell, for a notebook."""
    head = "".join(f"<th>{name}</th>" for name in ("sampling", "category", "prompt", *result.measures))
    rows = []
    for cell in (*result.cells(), QueryGroup()):
        names = [name or ALL for name in (cell.sampling, cell.category, cell.prompt)]
        values = [*names, *(str(result.accuracy(cell, measure)) for measure in result.measures)]
        rows.append("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in values) + "</tr>")
    return f"<table><caption>{escape(result.model)}</caption><tr>{head}</tr>{''.join(rows)}</table>"
