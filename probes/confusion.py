"""Confusion: which counts are mistaken for which, in which direction, and on which sequences.

Invariance: predictions are the same under every symmetry; permuting tokens permutes the errors by token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.cost import affordable, in_batches
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.designs import letters
from counting_interp.probes.result import Result, Scalar


@dataclass(frozen=True, eq=False)
class Failure:
    """A sequence with at least one wrong position."""

    sequence: tuple[str, ...]
    tokens: tuple[int, ...]
    true: tuple[int, ...]
    predicted: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Confusion(Result):
    """What the model gets wrong on sampled sequences.

    Attributes:
        positions: number of positions by true count 1..L and predicted count 0..L (0 exists in the published layout).
        accuracy: share of correct positions.
        floor: accuracy of the best constant answer on the same sequences.
        over, under: share of positions counted too high, and too low.
        bias: mean of predicted minus true count.
        sequence_accuracy: share of sequences right at every position.
        by_token: accuracy for each token; NaN where the token did not occur.
        failures: up to `keep` failing sequences, most wrong positions first.
        n_failures: number of failing sequences.
    """

    probe: ClassVar[str] = "confusion"
    meanings: ClassVar[dict[str, str]] = {
        "accuracy": "share of positions that are right",
        "floor": "what the best constant answer would get",
        "sequence_accuracy": "share of sequences right at every position",
        "overcounted": "share of positions counted too high",
        "undercounted": "too low",
        "bias": "mean of predicted minus true count",
        "worst_count_accuracy": "of the count that is worst",
        "worst_token_accuracy": "of the token that is worst",
        "failing_sequences": "sequences with a mistake",
        "sequences": "how many were tried",
        "first_failure": "one of those with most mistakes",
    }
    sampler: str
    n_sequences: int
    positions: Int[Tensor, "count predicted"]
    accuracy: float
    floor: float
    over: float
    under: float
    bias: float
    sequence_accuracy: float
    by_token: Float[Tensor, "token"]
    failures: tuple[Failure, ...]
    n_failures: int

    @property
    def by_count(self) -> Float[Tensor, "count"]:
        """Accuracy for each true count; NaN where the count did not occur."""
        return self.positions[:, 1:].diagonal() / self.positions.sum(1)

    @property
    def summary(self) -> dict[str, Scalar]:
        known = self.by_count[self.by_count.isfinite()]
        tokens = self.by_token[self.by_token.isfinite()]
        return {
            "accuracy": self.accuracy,
            "floor": self.floor,
            "sequence_accuracy": self.sequence_accuracy,
            "overcounted": self.over,
            "undercounted": self.under,
            "bias": self.bias,
            "worst_count_accuracy": float(known.min()),
            "worst_token_accuracy": float(tokens.min()),
            "failing_sequences": self.n_failures,
            "sequences": self.n_sequences,
            "first_failure": " ".join(self.failures[0].sequence) if self.failures else None,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        total = int(self.positions.sum())
        return [
            {"true": k + 1, "predicted": j, "positions": n, "share": n / total}
            for k, row in enumerate(self.positions.long().tolist())
            for j, n in enumerate(row)
        ]


@torch.no_grad()
def confusion(
    model: CountingModel,
    tokens: Int[Tensor, "batch pos"] | None = None,
    *,
    n: int = 3000,
    sampler: str = "paper",
    seed: int = 0,
    keep: int = 20,
) -> Confusion:
    """Compare predicted with true counts on `tokens`, or on `n` sequences from `sampler`."""
    T, L = model.config.T, model.config.L
    if tokens is None:
        tokens = task.sample(sampler, affordable(model.config, n), T=T, L=L, generator=seed)
    else:
        sampler = "given"
    true = model.truth(tokens)
    predicted = in_batches(model.config, tokens, model.predict)
    right = predicted == true
    by_token = torch.zeros(T, dtype=torch.float64).index_add_(0, tokens.flatten(), right.double().flatten())
    n_wrong = (~right).sum(1)
    worst = n_wrong.argsort(descending=True, stable=True)[:keep]
    table = torch.bincount((true * (L + 1) + predicted).flatten(), minlength=(L + 1) ** 2).reshape(L + 1, L + 1)
    return Confusion(
        sampler=sampler,
        n_sequences=len(tokens),
        positions=table[1:],
        accuracy=float(right.double().mean()),
        floor=float(table.sum(1).max() / table.sum()),
        over=float((predicted > true).double().mean()),
        under=float((predicted < true).double().mean()),
        bias=float((predicted - true).double().mean()),
        sequence_accuracy=float(right.all(1).double().mean()),
        by_token=by_token / torch.bincount(tokens.flatten(), minlength=T),  # 0/0 = NaN where a token did not occur
        failures=tuple(
            Failure(
                letters(tokens[i], T), tuple(tokens[i].tolist()), tuple(true[i].tolist()), tuple(predicted[i].tolist())
            )
            for i in worst
            if n_wrong[i]
        ),
        n_failures=int((n_wrong > 0).sum()),
    )
