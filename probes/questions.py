"""A list, then a question: which positions do the counting?

A model that answers once may count in two ways. Positions of the *list* count their token, and the question looks the
count up. Or the *question* itself compares with every position of the list. Transplants tell them apart: worths are
added at the positions outside of the list, and separately at the list's positions of the token. The count is made where
the earliest block moves the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch

from counting_interp.models.adapter import Adapter
from counting_interp.probes import shares as rule
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.result import Result, Scalar
from counting_interp.probes.shares import Estimate
from counting_interp.probes.transplants import Transplants, transplants


@dataclass(frozen=True, eq=False)
class ListOrQuestion(Result):
    """Transplants at the question and in the list.

    Attributes:
        at_question: at all positions outside of the list.
        at_list: at every position of the list that holds the token. In the last block no attention reads them any more.
    """

    probe: ClassVar[str] = "list-or-question"
    at_question: Transplants
    at_list: Transplants

    @property
    def counts_in(self) -> str:
        """`list` or `question`: where the earliest block moves the answer; empty where no block moves it.

        If it is the same block for both, the one that moves the answer farther.
        """
        listed, asked = _first(self.at_list), _first(self.at_question)
        if min(listed, asked) == len(self.at_question.moved):
            return ""
        if listed == asked:
            return "list" if self.at_list.moved[listed] > self.at_question.moved[asked] else "question"
        return "list" if listed < asked else "question"

    @property
    def decides(self) -> Transplants:
        """The transplants that decide the verdict."""
        return self.at_list if self.counts_in == "list" else self.at_question

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """For both, how far own moves the answer in its strongest block, and the shares; NaN where too little moves."""
        estimates = []
        for name, words, measured in (
            ("question", "transplanted outside of the list", self.at_question),
            ("list", "transplanted in the list", self.at_list),
        ):
            shares = measured.shares
            meanings = {measured.moves_estimate: "how far own copies move the answer"}
            meanings |= {share: f"share of {share.name}" for share in (shares.rc, shares.ic, shares.gated)}
            for estimate, meaning in meanings.items():
                estimates.append(replace(estimate, name=f"{name}_{estimate.name}", meaning=f"{meaning}, {words}"))
        return tuple(estimates)

    @property
    def summary(self) -> dict[str, Scalar]:
        return {
            "counts_in": self.counts_in or "neither",
            **self.decides.summary,
            "question_moves": float(self.at_question.moved.max()),
            "list_moves": float(self.at_list.moved.max()),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        both = (("question", self.at_question), ("list", self.at_list))
        return [{"positions": name, **row} for name, result in both for row in result.rows()]

    def __str__(self) -> str:
        label = self.decides.label or "no label"
        if not self.counts_in:
            return "No block moves the answer by itself, neither at the question nor in the list."
        block = _first(self.decides) + 1
        if self.counts_in == "question":
            return f"The question counts by itself, in block {block}: {label}."
        return f"Positions of the list count, in block {block}: {label}. The question looks that up."


def _first(result: Transplants) -> int:
    moving = (result.moved >= rule.MOVES).nonzero().flatten()
    return int(moving[0]) if len(moving) else len(result.moved)


@torch.no_grad()
def list_or_question(model: Adapter, *, n_pairs: int = 64, seed: int = 0) -> ListOrQuestion:
    """Transplant at the question, and separately in the list.

    Raises:
        NotApplicable: for models that answer at every position of the list.
    """
    if not isinstance(model, Adapter) or not model.config.asks:
        name = model.config.name
        raise NotApplicable(f"{name} answers at every position; questions at the end need Adapter(ask=...)")
    at_question, in_list = (transplants(view, n_pairs=n_pairs, seed=seed) for view in (model, model.lists))
    return ListOrQuestion(at_question, in_list)
