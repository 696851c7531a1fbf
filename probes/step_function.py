"""Step function: where one hidden unit carries the count, each logit is a straight line in its value.

Reads k copies of token A followed by L - k of token B, at the first place. If the same single hidden unit is active for
every k, the logits are lines in its value; the attainable values lie between the boundaries where neighbouring lines
cross (the paper's step figure). Hand-built models are of this kind, trained ones seldom.

Invariance: hidden values are rescaled with their unit; their order against the boundaries is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import CountingTransformer
from counting_interp.models.cost import activations, in_batches
from counting_interp.probes.applicability import needs_step_function, refuse
from counting_interp.probes.result import Result, Scalar


@dataclass(frozen=True, eq=False)
class StepFunction(Result):
    """Lines, values and boundaries.

    Attributes:
        unit: the active hidden unit.
        slopes, intercepts: of the logit of each count 1..L in the hidden value.
        values: the hidden value at each count.
        boundaries: between neighbouring counts, where their lines cross; NaN for parallel lines.
    """

    probe: ClassVar[str] = "step-function"
    unit: int
    slopes: Float[Tensor, "count"]
    intercepts: Float[Tensor, "count"]
    values: Float[Tensor, "count"]
    boundaries: Float[Tensor, "boundary"]

    @property
    def separated(self) -> bool:
        """Whether every boundary lies strictly between the values of its two counts."""
        inside = (self.boundaries - self.values[:-1]) * (self.values[1:] - self.boundaries) > 0
        return bool(inside.all())

    @property
    def summary(self) -> dict[str, Scalar]:
        gaps = torch.minimum((self.boundaries - self.values[:-1]).abs(), (self.values[1:] - self.boundaries).abs())
        return {"unit": self.unit, "boundaries_separate": self.separated, "smallest_gap": float(gaps.min())}

    def rows(self) -> list[dict[str, Scalar]]:
        edges = [*self.boundaries.tolist(), None]
        table = zip(self.slopes.tolist(), self.intercepts.tolist(), self.values.tolist(), edges, strict=True)
        return [
            {"count": k, "slope": slope, "intercept": intercept, "hidden_value": value, "boundary_above": edge}
            for k, (slope, intercept, value, edge) in enumerate(table, 1)
        ]


@torch.no_grad()
def step_function(model: CountingTransformer) -> StepFunction:
    """The lines and values of a model whose count sits in one hidden unit; NotApplicable for others."""
    config = model.config
    refuse(needs_step_function(config))
    occurrences = torch.arange(1, config.L + 1)
    tokens = (torch.arange(config.L) >= occurrences[:, None]).long()  # [count, pos]: A, ..., A, B, ..., B
    tokens = tokens.flip(1) if config.causal else tokens  # the position that is read sees all of them
    hidden = in_batches(config, tokens, lambda part: _hidden(model, part))  # [count, d_mlp]
    active = (hidden > 0).any(0).nonzero().flatten().tolist()
    refuse(None if len(active) == 1 else f"{len(active)} hidden units take part in counting; a step function has one")
    layer = model.blocks[0].mlp
    slopes, intercepts = model.count_logits(layer.W_out[active[0]]), model.count_logits(layer.b_out)
    return StepFunction(
        unit=active[0],
        slopes=slopes.clone(),
        intercepts=intercepts.clone(),
        values=hidden[:, active[0]].clone(),
        boundaries=-intercepts.diff() / slopes.diff(),
    )


def _hidden(model: CountingTransformer, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch d_mlp"]:
    """The hidden units at the place that is read."""
    (post,) = activations(model, tokens, "blocks.0.mlp.hook_post")
    return post[:, -1 if model.config.causal else -model.config.L].clone()
