"""The MLP in isolation: what does it predict for mixtures that attention never made?

A sweep replaces the mixed token (`blocks.0.hook_resid_mid`) by a point on a line between two mixtures and reads the
predicted count. If the MLP reads the count from one shared direction, predictions rise step by step along the line. The
steps then lie at the same alpha for all tokens. There are two lines:

    bos-sweep    alpha e_$ + (1 - alpha) e_i + e_j       (the paper's Fig. 3; needs `$` and weights that sum to one)
    count-sweep  (1 - alpha) x'(1) + alpha x'(L)         (any block)

x'(k) is the model's mixed token at the first position, for k copies of token j followed by L - k of token i. In causal
models it is that of the last position, for L - k of i followed by k of j. Without softmax, x'(k) is linear in k
and lies at alpha = (k-1)/(L-1) of the count-sweep.

Invariance: predictions do not change under any symmetry of the model that keeps the tokens. Permuting tokens permutes
the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from counting_interp.models import CountingTransformer
from counting_interp.models.cost import activations, batch_size, in_batches
from counting_interp.models.protocol import CountingModel, ModelSpec
from counting_interp.probes.catalogue import check
from counting_interp.probes.designs import letter
from counting_interp.probes.result import Result, Scalar, scalar, variance_share

MIXED = "blocks.0.hook_resid_mid"


@dataclass(frozen=True, eq=False)
class Sweep(Result):
    """Predicted counts along a line, for pairs of tokens.

    Attributes:
        alphas: equally spaced from 0 to 1.
        mixed: the tokens i, which have the rest of the weight.
        residual: the tokens j, which come in through the residual connection and are counted.
        predicted: predicted counts.
        defined: which pairs are defined (in a count-sweep, those with i other than j).
        boundaries: the first alpha beyond the boundary between counts k and k + 1, k = 1..L-1; NaN where the
            prediction never crosses it.
    """

    meanings: ClassVar[dict[str, str]] = {
        "pairs": "pairs of tokens that were tried",
        "monotone_share": "pairs whose prediction only rises or only falls",
        "counts_reached": "different counts that are predicted, median over pairs",
        "boundaries_crossed": "of the L - 1 steps between counts, how many are met",
        "boundary_spread": "how far apart a step lies for different pairs: the worst step",
        "boundary_spread_median": "the same for the median step",
        "grid_step": "the distance of two neighbouring alphas; a spread of this size is none",
        "variance_by_alpha": "share of the predictions' variance that goes with the mixture",
        "variance_by_mixed_token": "with the token that is mixed in; 0 in a shared read-out",
        "variance_by_residual_token": "with the token that is counted; 0 in a shared read-out",
    }

    T: int
    alphas: Float[Tensor, "alpha"]
    mixed: Int[Tensor, "mixed"]
    residual: Int[Tensor, "residual"]
    predicted: Int[Tensor, "mixed residual alpha"]
    defined: Bool[Tensor, "mixed residual"]
    boundaries: Float[Tensor, "mixed residual boundary"]

    @property
    def monotone(self) -> Bool[Tensor, "mixed residual"]:
        """Whether the predictions of a pair only rise, or only fall."""
        steps = self.predicted.diff(dim=-1)
        return (steps >= 0).all(-1) | (steps <= 0).all(-1)

    @property
    def spread(self) -> Float[Tensor, "boundary"]:
        """Range of each boundary over pairs of tokens; NaN where no pair crosses it."""
        values = self.boundaries[self.defined]
        high = values.nan_to_num(nan=-torch.inf).amax(0)
        low = values.nan_to_num(nan=torch.inf).amin(0)
        return torch.where(high >= low, high - low, torch.nan)

    @property
    def summary(self) -> dict[str, Scalar]:
        values = self.predicted[self.defined]
        n_classes = torch.tensor([len(row.unique()) for row in values]).double()
        i = torch.arange(len(self.mixed))[:, None, None].expand_as(self.predicted)[self.defined]
        j = torch.arange(len(self.residual))[None, :, None].expand_as(self.predicted)[self.defined]
        a = torch.arange(len(self.alphas)).expand_as(values)
        spread = self.spread[self.spread.isfinite()]
        crossed = self.boundaries[self.defined].isfinite()
        return {
            "pairs": len(values),
            "monotone_share": float(self.monotone[self.defined].double().mean()),
            "counts_reached": float(n_classes.median()),
            "boundaries_crossed": int(crossed.any(0).sum()),
            "boundary_spread": scalar(spread.max()) if len(spread) else None,
            "boundary_spread_median": scalar(spread.median()) if len(spread) else None,
            "grid_step": float(self.alphas[1] - self.alphas[0]),
            "variance_by_alpha": variance_share(values, a),
            "variance_by_mixed_token": variance_share(values, i),
            "variance_by_residual_token": variance_share(values, j),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        names_i = [letter(int(token), self.T) for token in self.mixed]
        names_j = [letter(int(token), self.T) for token in self.residual]
        alphas, predicted, defined = self.alphas.tolist(), self.predicted.tolist(), self.defined.tolist()
        return [
            {"mixed_token": i, "residual_token": j, "alpha": alpha, "predicted": count}
            for a, i in enumerate(names_i)
            for b, j in enumerate(names_j)
            if defined[a][b]
            for alpha, count in zip(alphas, predicted[a][b], strict=True)
        ]


@dataclass(frozen=True, eq=False)
class BosSweep(Sweep):
    """Predictions for alpha e_$ + (1 - alpha) e_i + e_j."""

    probe: ClassVar[str] = "bos-sweep"


@dataclass(frozen=True, eq=False)
class CountSweep(Sweep):
    """Predictions between the mixed tokens of count 1 and of count L."""

    probe: ClassVar[str] = "count-sweep"


AnySweep = TypeVar("AnySweep", BosSweep, CountSweep)


@torch.no_grad()
def bos_sweep(model: CountingTransformer, *, tokens: Sequence[int] | None = None, steps: int = 100) -> BosSweep:
    """The sweep over the weight of `$`, for all pairs of `tokens` (by default 16 spread over the alphabet).

    The paper's 4 x 4 sheet has the tokens 1, 2, 3, 4.
    """
    config = model.config
    check("bos-sweep", config)
    chosen = pick_tokens(config, tokens)
    alphas = torch.linspace(0, 1, steps, dtype=model.W_E.dtype)
    bos, table = model.W_E[config.T], model.W_E[chosen]
    weight = alphas[:, None]
    inputs = weight * bos + (1 - weight) * table[:, None, None] + table[None, :, None]  # [mixed, residual, alpha, d]
    defined = torch.ones(len(chosen), len(chosen), dtype=torch.bool)
    return _sweep(BosSweep, config, isolated(model, inputs), alphas, chosen, defined)


@torch.no_grad()
def count_sweep(model: CountingModel, *, tokens: Sequence[int] | None = None, steps: int = 100) -> CountSweep:
    """The sweep from one occurrence to L, for all pairs of `tokens` (by default 16 spread over the alphabet)."""
    config = model.config
    check("count-sweep", config)
    chosen = pick_tokens(config, tokens)
    n = len(chosen)
    if n < 2:
        raise ValueError(f"a count-sweep needs a token to count and another to fill, got tokens={chosen.tolist()}")
    counted = chosen.repeat(n, 1)[..., None].expand(n, n, config.L)  # [mixed, residual, pos]
    once = chosen[:, None, None].expand(n, n, config.L).clone()
    position = config.L - 1 if config.causal else 0
    once[..., position] = chosen
    sequences = torch.stack([once, counted]).flatten(0, 2)
    inner = config.prefix + position
    ends = in_batches(config, sequences, lambda batch: activations(model, batch, MIXED)[0][:, inner].clone())
    ends = ends.reshape(2, n, n, 1, config.d)
    alphas = torch.linspace(0, 1, steps, dtype=ends.dtype)
    if isinstance(model, CountingTransformer):  # it has no residual around the MLP
        predicted = isolated(model, (1 - alphas[:, None]) * ends[0] + alphas[:, None] * ends[1])
    else:
        predicted = _moved(model, once, position, alphas[:, None] * (ends[1] - ends[0]))
    return _sweep(CountSweep, config, predicted, alphas, chosen, ~torch.eye(n, dtype=torch.bool))


def pick_tokens(config: ModelSpec, tokens: Sequence[int] | None) -> Int[Tensor, "token"]:
    """`tokens` as a tensor, checked; or up to 16 spread evenly over the alphabet."""
    if tokens is None:
        return torch.linspace(0, config.T - 1, min(config.T, 16), dtype=torch.float64).round().long()
    chosen = torch.tensor(list(tokens))
    if not len(chosen) or int(chosen.min()) < 0 or int(chosen.max()) >= config.T:
        raise ValueError(f"tokens must be a few of 0..{config.T - 1}, got {list(tokens)}")
    return chosen


@torch.no_grad()
def isolated(model: CountingTransformer, inputs: Float[Tensor, "*point d_model"]) -> Int[Tensor, "*point"]:
    """The counts that the MLP of a one-layer model predicts for any mixed tokens.

    L of them at a time are patched into `hook_resid_mid` of a dummy sequence.
    """
    L, points = model.config.L, inputs.reshape(-1, inputs.shape[-1])
    batch = -(-len(points) // L)
    filled = torch.cat([points, points.new_zeros(batch * L - len(points), points.shape[-1])]).reshape(batch, L, -1)

    predicted = torch.cat([_predict(model, rows) for rows in filled.split(batch_size(model.config))])
    return predicted.flatten()[: len(points)].reshape(inputs.shape[:-1])


def _predict(model: CountingTransformer, filled: Float[Tensor, "batch pos d_model"]) -> Int[Tensor, "batch pos"]:
    batch, L, _ = filled.shape

    def hook(mixed: Tensor, hook: object) -> Tensor:
        return torch.cat([mixed[:, :-L], filled], 1)  # `$` is not patched

    logits = model.run_with_hooks(torch.zeros(batch, L, dtype=torch.long), fwd_hooks=[(MIXED, hook)])
    return logits.argmax(-1) + model.config.first_count


def _moved(
    model: CountingModel,
    sequences: Int[Tensor, "mixed residual pos"],
    position: int,
    by: Float[Tensor, "mixed residual alpha d_model"],
) -> Int[Tensor, "mixed residual alpha"]:
    """Predicted counts at one position when `by` is added to its mixed token, and so to the residual around the MLP."""
    config, size = model.config, batch_size(model.config)
    rows = sequences[:, :, None].expand(*by.shape[:-1], -1).reshape(-1, config.L)
    counts = []
    for batch, step in zip(rows.split(size), by.reshape(-1, by.shape[-1]).split(size), strict=True):

        def move(mixed: Tensor, hook: object, step: Tensor = step) -> Tensor:
            moved = mixed.clone()
            moved[:, config.prefix + position] += step
            return moved

        logits = model.run_with_hooks(batch, fwd_hooks=[(MIXED, move)])
        counts.append(logits[:, position].argmax(-1).cpu() + config.first_count)
    return torch.cat(counts).reshape(by.shape[:-1])


def find_boundaries(
    predicted: Int[Tensor, "*pair alpha"], alphas: Float[Tensor, "alpha"], L: int
) -> Float[Tensor, "*pair boundary"]:
    """The first alpha after which the prediction has crossed k + 1/2, for k = 1..L-1; NaN where it never crosses."""
    above = predicted[..., None, :] > torch.arange(1, L)[:, None]
    crosses = above[..., 1:] != above[..., :-1]
    first = alphas[1:][crosses.byte().argmax(-1)]
    return torch.where(crosses.any(-1), first, torch.nan)


def _sweep(
    kind: type[AnySweep],
    config: ModelSpec,
    predicted: Int[Tensor, "mixed residual alpha"],
    alphas: Float[Tensor, "alpha"],
    tokens: Int[Tensor, "token"],
    defined: Bool[Tensor, "mixed residual"],
) -> AnySweep:
    boundaries = find_boundaries(predicted, alphas, config.L)
    return kind(config.T, alphas, tokens, tokens, predicted, defined, boundaries)
