"""The result of an evaluation: every question with its answers, and what the figures and tables are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from counting_interp.interp.llm.clustered_accuracy import ClusteredAccuracy, clustered_accuracy
from counting_interp.interp.llm.queries import Query

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

    def answers(self, outcomes: Sequence[AnsweredQuery], measure: str) -> list[int | None]:
        """What was answered, by one of the measures."""
        if measure not in self.measures:
            raise ValueError(f"measure must be one of {', '.join(self.measures)}, got {measure!r}")
        return [outcome.scored if measure == "scored" else outcome.generated for outcome in outcomes]

    def _repr_html_(self) -> str:
        from counting_interp.interp.llm.tables import accuracy_html

        return accuracy_html(self)


def _numbered(keys: Sequence[Any]) -> list[int]:
    """Equal keys get equal numbers."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
