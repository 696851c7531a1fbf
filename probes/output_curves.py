"""Output curves: the logits of every count against the number of occurrences.

Sequences hold i copies of a counted token, then L - i of a filler, and are read at the first position. The published
code fixes the counted token (22) and varies the filler; the caption of its figure says the opposite. Both are offered.
The first shows whether the read-out depends on the other tokens, the second whether it depends on the counted token.
The curve in which both tokens are equal always holds L copies. The published figure draws it; here it is left out.

Invariance: logits are the same under every symmetry of the model; permuting tokens permutes the curves.

Step function: where one hidden unit carries the count, each logit is a straight line in its value.

Sequences hold k copies of token A followed by L - k of token B, read at the first position. If the same single hidden
unit is active for every k, the logits are lines in its value. Neighbouring lines cross at the boundaries, and the
unit's values lie between them (the paper's step figure). Hand-built models are of this kind, trained ones seldom.

Invariance: rescaling the hidden unit rescales its values and the boundaries together, so their order stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import CountingTransformer
from counting_interp.models.cost import activations, in_batches
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import refuse
from counting_interp.probes.catalogue import check
from counting_interp.probes.designs import letter
from counting_interp.probes.result import Result, Scalar, variance_share

PUBLISHED_TOKEN = 22
READINGS = ("filler", "counted")


@dataclass(frozen=True, eq=False)
class OutputCurves(Result):
    """Logits at the first position.

    Attributes:
        varies: `filler` (the counted token is fixed, as in the published code) or `counted`.
        fixed: the token that stays.
        varied: the tokens that take the other role, one curve each.
        logits: of counts 1..L, for 1..L occurrences.
        predicted: the count with the highest logit, among all classes of the model.
    """

    probe: ClassVar[str] = "output-curves"
    meanings: ClassVar[dict[str, str]] = {
        "varies": "which token changes from curve to curve",
        "fixed": "the token that stays",
        "curves": "how many there are",
        "accuracy": "share of correct answers",
        "curves_all_right": "share of curves without a mistake",
        "variance_by_occurrences": "share of the predictions' variance that goes with the number of occurrences",
        "variance_by_varied_token": "with the token that changes; 0 if it does not matter",
        "logit_spread": "how far logits differ between curves: standard deviation",
    }
    T: int
    varies: str
    fixed: int
    varied: Int[Tensor, "curve"]
    logits: Float[Tensor, "curve occurrences count"]
    predicted: Int[Tensor, "curve occurrences"]

    @property
    def summary(self) -> dict[str, Scalar]:
        occurrences = torch.arange(1, self.predicted.shape[1] + 1)
        right = self.predicted == occurrences
        curve = torch.arange(len(self.varied))[:, None].expand_as(self.predicted)
        return {
            "varies": self.varies,
            "fixed": letter(self.fixed, self.T),
            "curves": len(self.varied),
            "accuracy": float(right.double().mean()),
            "curves_all_right": float(right.all(1).double().mean()),
            "variance_by_occurrences": variance_share(self.predicted, (occurrences - 1).expand_as(self.predicted)),
            "variance_by_varied_token": variance_share(self.predicted, curve),
            "logit_spread": float(self.logits.std(0, correction=0).mean()),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        values = self.logits.tolist()
        return [
            {
                "varies": self.varies,
                "fixed": letter(self.fixed, self.T),
                "varied": letter(int(token), self.T),
                "occurrences": i + 1,
                "class_count": k + 1,
                "logit": values[c][i][k],
            }
            for c, token in enumerate(self.varied)
            for i in range(self.logits.shape[1])
            for k in range(self.logits.shape[2])
        ]


@torch.no_grad()
def output_curves(model: CountingModel, *, varies: str = "filler", fixed: int | None = None) -> OutputCurves:
    """One curve for every token but `fixed`, in the role `varies`.

    By default `fixed` is the published token 22, or the last token of a smaller alphabet.
    """
    config = model.config
    if varies not in READINGS:
        raise ValueError(f"varies must be filler or counted, got {varies!r}")
    if fixed is None:
        fixed = min(PUBLISHED_TOKEN, config.T - 1)
    if not 0 <= fixed < config.T:
        raise ValueError(f"the fixed token must lie in 0..{config.T - 1}, got {fixed}")
    varied = torch.tensor([token for token in range(config.T) if token != fixed])
    constant = torch.full_like(varied, fixed)
    counted, filler = (constant, varied) if varies == "filler" else (varied, constant)
    copies = torch.arange(1, config.L + 1)[:, None] > torch.arange(config.L)  # [occurrences, pos]
    copies = copies.flip(1) if config.causal else copies  # in causal models the last position is read
    tokens = torch.where(copies, counted[:, None, None], filler[:, None, None])
    position = -1 if config.causal else 0
    first = in_batches(config, tokens.flatten(0, 1), lambda batch: model.run_with_hooks(batch)[:, position].clone())
    logits = first.reshape(len(varied), config.L, -1)
    return OutputCurves(
        T=config.T,
        varies=varies,
        fixed=fixed,
        varied=varied,
        logits=logits[..., 1 - config.first_count :],  # without the class for count 0 of the published layout
        predicted=logits.argmax(-1) + config.first_count,
    )


@dataclass(frozen=True, eq=False)
class StepFunction(Result):
    """The logits as lines in the value of one hidden unit.

    Attributes:
        unit: index of the active hidden unit.
        slopes, intercepts: of the line of each count 1..L.
        values: the hidden value at each count.
        boundaries: where the lines of neighbouring counts cross; NaN for parallel lines.
    """

    probe: ClassVar[str] = "step-function"
    meanings: ClassVar[dict[str, str]] = {
        "unit": "the one hidden unit that counts",
        "boundaries_separate": "whether each boundary lies between the values of its two counts",
        "smallest_gap": "least distance of a value from a boundary",
    }
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
    """The lines and values of a model in which one hidden unit carries the count.

    Raises:
        NotApplicable: where several hidden units, or none, are active.
    """
    config = model.config
    check("step-function", config)
    occurrences = torch.arange(1, config.L + 1)
    tokens = (torch.arange(config.L) >= occurrences[:, None]).long()  # [count, pos]: A, ..., A, B, ..., B
    tokens = tokens.flip(1) if config.causal else tokens  # in causal models the last position is read
    hidden = in_batches(config, tokens, lambda batch: _hidden(model, batch))  # [count, d_mlp]
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
    """Hidden activations at the position that is read."""
    (post,) = activations(model, tokens, "blocks.0.mlp.hook_post")
    return post[:, -1 if model.config.causal else -model.config.L].clone()
