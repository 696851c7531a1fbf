"""Three-token mixtures: the MLP on the simplex alpha_B e_B + alpha_C e_C + alpha_D e_D + R (the paper's Fig. 4).

Inventory-based counting reads only the weight of the token R that comes in through the residual connection. Boundaries
are then lines of equal alpha_R, however the other two tokens share the rest. In relation-based counting the prediction
does not depend on how much of each token is mixed in.

A bos+sftm model never sees a mixture without `$`, so a fixed weight of `$` is mixed in. By default it is the model's
mean attention to `$`.

Invariance: as for the sweeps, nothing changes under any symmetry that keeps the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import CountingTransformer, task
from counting_interp.models.cost import activations, with_attention
from counting_interp.probes.catalogue import check
from counting_interp.probes.designs import letter
from counting_interp.probes.isolation import find_boundaries, isolated
from counting_interp.probes.result import Result, Scalar, scalar, variance_share

SPLITS = (0.0, 0.5, 1.0)  # share of the remaining weight for the first of the other two tokens


@dataclass(frozen=True, eq=False)
class Simplex(Result):
    """Predicted counts on the simplex of three tokens, one map per residual.

    Attributes:
        tokens: the three tokens.
        weights: alpha of each token at each point of the grid.
        predicted: predicted counts, one row for each residual.
        boundaries: for k = 1..L-1, the weight of the residual token at which the prediction crosses from k to k + 1;
            NaN where it never does. One for each residual and for each of SPLITS.
        bos_weight: weight of `$` in every mixture; zero in models without `$`.
    """

    probe: ClassVar[str] = "simplex"
    meanings: ClassVar[dict[str, str]] = {
        "tokens": "the three that are mixed",
        "counts_reached": "different counts that are predicted",
        "variance_by_own_weight": "share of the predictions' variance that goes with the residual token's weight",
        "boundaries_crossed": "of the L - 1 steps between counts, how many are met",
        "boundary_spread": "how far apart a step lies for different mixtures: the worst step",
        "boundary_spread_median": "the same for the median step",
        "bos_weight": "of $ in every mixture",
    }
    T: int
    tokens: tuple[int, int, int]
    weights: Float[Tensor, "point 3"]
    predicted: Int[Tensor, "3 point"]
    boundaries: Float[Tensor, "3 split boundary"]
    bos_weight: float

    @property
    def summary(self) -> dict[str, Scalar]:
        steps = int((1 / self.weights[self.weights > 0].min()).round())
        by_own_weight = [
            variance_share(self.predicted[r], (self.weights[:, r] * steps).round().long()) for r in range(3)
        ]
        measured = [value for value in by_own_weight if value is not None]
        flat = self.boundaries.flatten(0, 1)
        crossed = flat.isfinite()
        spread = (flat.nan_to_num(nan=-torch.inf).amax(0) - flat.nan_to_num(nan=torch.inf).amin(0))[crossed.any(0)]
        return {
            "tokens": " ".join(letter(token, self.T) for token in self.tokens),
            "counts_reached": len(self.predicted.unique()),
            "variance_by_own_weight": sum(measured) / len(measured) if measured else None,
            "boundaries_crossed": int(crossed.any(0).sum()),
            "boundary_spread": scalar(spread.max()) if len(spread) else None,
            "boundary_spread_median": scalar(spread.median()) if len(spread) else None,
            "bos_weight": self.bos_weight,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        names = [f"alpha_{letter(token, self.T)}" for token in self.tokens]
        points, predicted = self.weights.tolist(), self.predicted.tolist()
        return [
            {"residual": letter(self.tokens[r], self.T), **dict(zip(names, point, strict=True)), "predicted": count}
            for r in range(3)
            for point, count in zip(points, predicted[r], strict=True)
        ]


@torch.no_grad()
def simplex(
    model: CountingTransformer,
    *,
    tokens: tuple[int, int, int] | None = None,
    steps: int = 100,
    bos_weight: float | None = None,
) -> Simplex:
    """Predictions on a grid of `steps` per edge, for `tokens` (by default B, C, D) with each of them as residual."""
    config = model.config
    check("simplex", config)
    if tokens is None:
        tokens = (1, 2, 3) if config.T > 3 else (0, 1, 2)
    if len(set(tokens)) < 3 or not all(0 <= token < config.T for token in tokens):
        raise ValueError(f"tokens must be three different ones of 0..{config.T - 1}, got {tokens}")
    if not config.has_bos:
        bos_weight = 0.0
    elif bos_weight is None:
        bos_weight = mean_bos_weight(model)
    grid = torch.arange(steps + 1)
    first, second = torch.meshgrid(grid, grid, indexing="ij")
    inside = first + second <= steps
    weights = torch.stack([first[inside], second[inside], steps - first[inside] - second[inside]], -1) / steps
    weights = weights.to(model.W_E.dtype)

    own = torch.linspace(0, 1, 1001, dtype=weights.dtype)
    lines = torch.stack([_line(own, residual) for residual in range(3)])  # [residual, split, alpha, 3]
    along = isolated(model, _mix(model, lines, tokens, bos_weight))
    return Simplex(
        T=config.T,
        tokens=tokens,
        weights=weights,
        predicted=isolated(model, _mix(model, weights.expand(3, -1, -1), tokens, bos_weight)),
        boundaries=find_boundaries(along, own, config.L),
        bos_weight=bos_weight,
    )


def mean_bos_weight(model: CountingTransformer, n: int = 256, seed: int = 0) -> float:
    """The mean attention to `$` over sampled sequences."""
    n = with_attention(model.config, n)
    tokens = task.sample("paper", n, T=model.config.T, L=model.config.L, generator=seed)
    (pattern,) = activations(model, tokens, "blocks.0.attn.hook_pattern")
    return float(pattern[:, 0, 1:, 0].mean())


def _line(own: Float[Tensor, "alpha"], residual: int) -> Float[Tensor, "split alpha 3"]:
    """Weights with `own` on the residual token and the rest split between the other two."""
    others = [corner for corner in range(3) if corner != residual]
    weights = own.new_zeros(len(SPLITS), len(own), 3)
    weights[:, :, residual] = own
    for i, split in enumerate(SPLITS):
        weights[i, :, others[0]] = (1 - own) * split
        weights[i, :, others[1]] = (1 - own) * (1 - split)
    return weights


def _mix(
    model: CountingTransformer,
    weights: Float[Tensor, "3 *point 3"],
    tokens: tuple[int, int, int],
    bos_weight: float,
) -> Float[Tensor, "3 *point d_model"]:
    """The mixtures, plus the residual token of each row."""
    table = model.W_E[list(tokens)]
    mixed = (1 - bos_weight) * (weights @ table)
    if bos_weight:
        mixed = mixed + bos_weight * model.W_E[model.config.T]
    return mixed + table.reshape(3, *[1] * (weights.ndim - 2), -1)
