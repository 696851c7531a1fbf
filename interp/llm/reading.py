"""An evaluation back from its folder: the table of answers that `interp llm` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from counting_interp.interp.llm.queries import Query
from counting_interp.interp.llm.result import AnsweredQuery, Evaluation
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.tables import read_csv

ANSWERS = "answers.csv"
COLUMNS = ("sampling", "category", "prompt", "list", "items", "asked", "truth", "scored", "generated", "text", "p0")


def read_evaluation(folder: Path) -> Evaluation:
    """What `interp llm -o FOLDER` found; the folder's name stands for the model's. Prompts are not in the table."""
    outcomes = read_csv(folder / ANSWERS, COLUMNS, _outcome, "`interp llm -o DIR` writes such tables")
    if not outcomes:
        raise InterpError(f"{printable(str(folder / ANSWERS))} has no answers; let `interp llm` ask some")
    return Evaluation(folder.resolve().name, len(outcomes[0].probabilities) - 1, tuple(outcomes), {})


def _outcome(row: Mapping[str, str]) -> AnsweredQuery:
    names = [name for name in row if name[:1] == "p" and name[1:].isdecimal()]
    probabilities = tuple(float(row[name]) for name in names)
    truth, scored = int(row["truth"]), int(row["scored"])
    if not (0 <= truth < len(names) and 0 <= scored < len(names)):
        raise ValueError(f"counts go from 0 to {len(names) - 1}, got truth {truth} and answer {scored}")
    items = tuple(row["items"].split(" "))
    query = Query(row["sampling"], row["category"], row["prompt"], int(row["list"]), items, row["asked"], truth, "")
    generated = int(row["generated"]) if row["generated"] else None
    return AnsweredQuery(query, probabilities, scored, row["text"] or None, generated)
