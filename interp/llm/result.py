"""The result of an evaluation: every question with its answers, intervals, tables, and the way back from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from counting_interp.interp.llm.prompts import Query
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.tables import read_csv, write_csv

# --- accuracy whose interval knows that questions about one list stand or fall together -------------------------------

Z = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class ClusteredAccuracy:
    """A share of right answers, its 95 % interval, and how many questions about how many lists it rests on."""

    value: float
    low: float
    high: float
    questions: int
    lists: int

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def wilson(share: float, n: float) -> tuple[float, float]:
    """The Wilson score interval of a share seen in `n` independent trials; `n` need not be whole."""
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def clustered_accuracy(right: Sequence[bool], lists: Sequence[int]) -> ClusteredAccuracy:
    """Accuracy over questions, `lists[i]` being the list that question i is about.

    Ten questions about one list are not ten independent trials. The variance of the share is estimated from the lists'
    own totals, and the Wilson interval is that of as many independent questions as have this variance: at most all of
    them, at least one per list, and one per list where all answers agree and nothing can be estimated.
    """
    hits = np.asarray(right, dtype=float)
    _, cluster = np.unique(np.asarray(lists), return_inverse=True)
    n, k = len(hits), int(cluster.max()) + 1
    share = float(hits.mean())
    residuals = np.bincount(cluster, weights=hits - share)
    variance = float((residuals**2).sum()) / n**2 * (k / (k - 1) if k > 1 else 1.0)
    independent = share * (1 - share) / variance if variance > 0 else k
    return ClusteredAccuracy(share, *wilson(share, float(np.clip(independent, k, n))), n, k)


COUNTS = 0.5  # the slope of the answer over the true count below which a model does not count


@dataclass(frozen=True)
class Slope:
    """The slope of the answer over the true count, and its 95 % interval over lists."""

    value: float
    low: float
    high: float

    @property
    def counts(self) -> bool:
        """The gate: below a slope of one half there is no counting whose mechanism could be asked for."""
        return self.value >= COUNTS

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def clustered_slope(truths: Sequence[int], answers: Sequence[int], lists: Sequence[int]) -> Slope:
    """By least squares, with a variance that takes the questions about one list as belonging together."""
    x, y = np.asarray(truths, dtype=float), np.asarray(answers, dtype=float)
    _, cluster = np.unique(np.asarray(lists), return_inverse=True)
    k = int(cluster.max()) + 1
    deviation = x - x.mean()
    spread = float((deviation**2).sum())
    value = float((deviation * y).sum()) / spread
    residuals = y - y.mean() - value * deviation
    scores = np.bincount(cluster, weights=deviation * residuals)
    half = Z * sqrt(float((scores**2).sum()) * (k / (k - 1) if k > 1 else 1.0)) / spread
    return Slope(value, value - half, value + half)


# --- result -----------------------------------------------------------------------------------------------------------

MEASURES = ("scored", "generated")


@dataclass(frozen=True)
class AnsweredQuery:
    """A question and what the model answered.

    Attributes:
        query: the question, with its true answer.
        probabilities: of the counts 0..length, from the next-token distribution.
        scored: the most probable count.
        text: the greedy continuation, or None if it was not asked for.
        generated: the number that the continuation begins with; None if there is none.
    """

    query: Query
    probabilities: tuple[float, ...]
    scored: int
    text: str | None
    generated: int | None


@dataclass(frozen=True)
class QueryGroup:
    """One panel of the paper's figure: a category, a prompt and a sampling; None stands for all of them."""

    category: str | None = None
    prompt: str | None = None
    sampling: str | None = None

    def holds(self, query: Query) -> bool:
        return (
            self.category in (None, query.category)
            and self.prompt in (None, query.prompt)
            and self.sampling in (None, query.sampling)
        )


@dataclass(frozen=True)
class AnswerCounts:
    """How often each answer was given to questions with each true count.

    Attributes:
        counts: [truth, answer], both 0..length, and one more column for all other answers: numbers out of range, and
            texts that do not begin with a number.
    """

    counts: Int[np.ndarray, "truth answer"]

    @property
    def shares(self) -> Float[np.ndarray, "truth answer"]:
        """P(answer | truth); rows of counts that never occurred are NaN."""
        totals = self.counts.sum(1, keepdims=True)
        return np.where(totals > 0, self.counts / np.maximum(totals, 1), np.nan)


@dataclass(frozen=True)
class Evaluation:
    """All outcomes of one model.

    Attributes:
        model: its name, as it was given.
        length: of the lists.
        outcomes: one per question, in the order of asking.
        settings: what the run was made with, for the record.
    """

    model: str
    length: int
    outcomes: tuple[AnsweredQuery, ...]
    settings: dict[str, Any]

    @property
    def measures(self) -> tuple[str, ...]:
        """`scored`, and `generated` if there was generation."""
        return MEASURES if all(outcome.text is not None for outcome in self.outcomes) else MEASURES[:1]

    def names(self, axis: str) -> list[str]:
        """The categories, prompts or samplings that occur, in order: `names("category")`."""
        return list(dict.fromkeys(getattr(outcome.query, axis) for outcome in self.outcomes))

    def cells(self) -> Iterator[QueryGroup]:
        """Every combination of sampling, category and prompt that questions were asked about."""
        asked = {(outcome.query.category, outcome.query.prompt, outcome.query.sampling) for outcome in self.outcomes}
        for sampling in self.names("sampling"):
            for category in self.names("category"):
                for prompt in self.names("prompt"):
                    if (category, prompt, sampling) in asked:
                        yield QueryGroup(category, prompt, sampling)

    def select(self, cell: QueryGroup) -> list[AnsweredQuery]:
        return [outcome for outcome in self.outcomes if cell.holds(outcome.query)]

    def confusion(self, cell: QueryGroup | None = None, measure: str = "scored") -> AnswerCounts:
        """The confusion matrix of a cell, or of everything."""
        counts = np.zeros((self.length + 1, self.length + 2), dtype=np.int64)
        outcomes = self.select(cell or QueryGroup())
        for outcome, answer in zip(outcomes, self.answers(outcomes, measure), strict=True):
            inside = answer is not None and answer <= self.length
            counts[outcome.query.truth, answer if inside else -1] += 1
        return AnswerCounts(counts)

    def accuracy(self, cell: QueryGroup | None = None, measure: str = "scored") -> ClusteredAccuracy:
        """The share of right answers, with a 95 % interval over lists. No number is a wrong answer."""
        outcomes = self.select(cell or QueryGroup())
        if not outcomes:
            raise ValueError(f"no question belongs to {cell}")
        lists = _numbered([(outcome.query.sampling, outcome.query.number) for outcome in outcomes])
        answers = self.answers(outcomes, measure)
        right = [answer == outcome.query.truth for outcome, answer in zip(outcomes, answers, strict=True)]
        return clustered_accuracy(right, lists)

    def slope(self, cell: QueryGroup | None = None, measure: str = "scored") -> Slope | None:
        """How much the answer grows when the true count grows by one; answers that are no number are left out.

        Returns:
            None where questions with fewer than two different counts were answered.
        """
        outcomes = self.select(cell or QueryGroup())
        answered = [
            (outcome.query.truth, answer, (outcome.query.sampling, outcome.query.number))
            for outcome, answer in zip(outcomes, self.answers(outcomes, measure), strict=True)
            if answer is not None
        ]
        if len({truth for truth, _, _ in answered}) < 2:
            return None
        truths, answers, lists = zip(*answered, strict=True)
        return clustered_slope(truths, answers, _numbered(lists))

    def answers(self, outcomes: Sequence[AnsweredQuery], measure: str) -> list[int | None]:
        """What was answered, by one of the measures."""
        if measure not in self.measures:
            raise ValueError(f"measure must be one of {', '.join(self.measures)}, got {measure!r}")
        return [outcome.scored if measure == "scored" else outcome.generated for outcome in outcomes]

    def _repr_html_(self) -> str:
        tagged = [("td" if number else "th", row) for number, row in enumerate(accuracy_table(self))]
        rows = ("".join(f"<{tag}>{escape(value)}</{tag}>" for value in row) for tag, row in tagged)
        return f"<table><caption>{escape(self.model)}</caption><tr>{'</tr><tr>'.join(rows)}</tr></table>"


def _numbered(keys: Sequence[Any]) -> list[int]:
    """Equal keys get equal numbers."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


# --- tables -----------------------------------------------------------------------------------------------------------

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


def accuracy_table(result: Evaluation) -> list[tuple[str, ...]]:
    """The accuracy of every cell with its interval, in words; the first row names the columns."""
    rows: list[tuple[str, ...]] = [("sampling", "category", "prompt", *result.measures)]
    for cell in (*result.cells(), QueryGroup()):
        names = (name or ALL for name in (cell.sampling, cell.category, cell.prompt))
        rows.append((*names, *(str(result.accuracy(cell, measure)) for measure in result.measures)))
    return rows


# --- reading back -----------------------------------------------------------------------------------------------------

ANSWERS = "answers.csv"
COLUMNS = ("sampling", "category", "prompt", "list", "items", "asked", "truth", "scored", "generated", "text", "p0")


def read_evaluation(folder: Path) -> Evaluation:
    """What `interp llm -o FOLDER` found; the folder's name stands for the model's. Prompts are not in the table."""
    outcomes = read_csv(folder / ANSWERS, COLUMNS, _outcome, "`interp llm -o DIR` writes such tables")
    if not outcomes:
        raise InterpError(f"{printable(str(folder / ANSWERS))} has no answers; let `interp llm` ask some")
    if not any(outcome.text for outcome in outcomes):  # a model may write nothing now and then, but not always
        outcomes = [replace(outcome, text=None) for outcome in outcomes]
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
    return AnsweredQuery(query, probabilities, scored, row["text"], generated)
