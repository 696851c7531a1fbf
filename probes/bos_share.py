"""BOS share: does attention to `$` carry the count, and does the prediction follow it?

Relation-based counting in bos+sftm turns the number of equal tokens into the weight left for `$`. A softmax row sums to
one, so the weight of `$` falls with each equal token (or rises, where equal tokens score low). Without softmax
the weight of `$` depends on the query's token alone and cannot carry a count. The probe then says so.

The intervention sets each position's attention to `$` to the mean of its token at another count k'. The rest of the row
is rescaled so that the row still sums to one. Does the prediction move from k to k'?

Invariance: the pattern is the same under every symmetry of the model, and so is everything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.cost import activations, in_batches
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import check_head, check_layer
from counting_interp.probes.catalogue import check
from counting_interp.probes.designs import every_count, letter
from counting_interp.probes.result import Result, Scalar, variance_share


@dataclass(frozen=True, eq=False)
class BosShare(Result):
    """Attention to `$` by token and count, and predictions when it is set.

    Attributes:
        head: the head that is measured.
        softmax: whether attention weights sum to one.
        share: attention to `$` for each token and count 1..L, mean over fillers.
        low, high: its extremes for each count, over all tokens and fillers.
        by_count, by_token: share of the variance of the attention to `$` explained by the true count, and by the token.
            The design is balanced, so they sum to at most one. None if it does not vary.
        monotonicity: Kendall's tau between count and share, mean over tokens. +1 if it rises at every step for every
            token, -1 if it falls, near 0 without order.
        gap: the smallest distance between the ranges [low, high] of two counts. Negative if two ranges overlap,
            positive if the share alone determines the count.
        predicted: mean predicted count where the true count is k and the share is set to that of k'.
        follows: share of positions where the prediction becomes k', over k' other than k. The baseline is 1 / L.
        stays: share of positions where the prediction remains k, over the same k'.
        unmoved: accuracy where the share is set to the mean of the true count itself.
        accuracy: accuracy without intervention, on the same sequences.
    """

    probe: ClassVar[str] = "bos-share"
    meanings: ClassVar[dict[str, str]] = {
        "variance_by_count": "share of the variance of the attention to $ that goes with the true count",
        "variance_by_token": "share that goes with the token; the two add up to at most 1",
        "monotonicity": "+1 if it rises with the count for every token, -1 if it falls, 0 without order",
        "gap": "least distance between the ranges of two counts; above 0, the share alone tells the count",
        "share_at_1": "mean attention to $ of a token that occurs once",
        "share_at_L": "of one that occurs L times",
        "token_spread": "how far tokens of the same count differ: standard deviation",
        "prediction_follows": "set to the share of another count, how often the answer becomes that count",
        "prediction_stays": "how often it stays as it was",
        "right_at_own_mean": "set to the mean share of its own count, how often it is right",
        "accuracy": "on the same sequences, nothing set",
    }
    layer: int
    head: int
    softmax: bool
    share: Float[Tensor, "token count"]
    low: Float[Tensor, "count"]
    high: Float[Tensor, "count"]
    by_count: float | None
    by_token: float | None
    monotonicity: float
    gap: float
    predicted: Float[Tensor, "count set_to"]
    follows: float
    stays: float
    unmoved: float
    accuracy: float

    @property
    def summary(self) -> dict[str, Scalar]:
        return {
            "variance_by_count": self.by_count,
            "variance_by_token": self.by_token,
            "monotonicity": self.monotonicity,
            "gap": self.gap,
            "share_at_1": float(self.share[:, 0].mean()),
            "share_at_L": float(self.share[:, -1].mean()),
            "token_spread": float(self.share.std(0, correction=0).mean()),
            "prediction_follows": self.follows,
            "prediction_stays": self.stays,
            "right_at_own_mean": self.unmoved,
            "accuracy": self.accuracy,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        T, L = self.share.shape
        return [
            {"token": letter(t, T), "count": k + 1, "share": float(self.share[t, k])}
            for t in range(T)
            for k in range(L)
        ]

    def causal_rows(self) -> list[dict[str, Scalar]]:
        """`predicted` as a table."""
        L = len(self.low)
        return [
            {"count": k + 1, "set_to": j + 1, "mean_prediction": float(self.predicted[k, j])}
            for k in range(L)
            for j in range(L)
        ]


@torch.no_grad()
def bos_share(
    model: CountingModel, *, layer: int = 0, head: int | None = None, repeats: int = 4, n: int = 256, seed: int = 0
) -> BosShare:
    """Measure the share at every (token, count) with `repeats` draws of fillers; intervene on `n` sequences.

    By default the head is the one where the count explains most of the variance of the attention to `$`.
    """
    config = model.config
    check("bos-share", config)
    check_layer(config, layer)
    check_head(config, head)
    tokens, where = every_count(config, repeats, seed)

    def share(part: Int[Tensor, "part pos"]) -> Float[Tensor, "part pos head"]:
        return activations(model, part, pattern_name(layer))[0][:, :, 1 : 1 + config.L, 0].mT.clone()

    to_bos = in_batches(config, tokens.reshape(-1, config.L), share)
    every = to_bos[torch.arange(len(to_bos)), where.flatten()].reshape(config.T, config.L, repeats, -1)
    cells = torch.arange(config.T * config.L).reshape(config.T, config.L, 1).expand(every.shape[:3])

    def by_count(each: int) -> float | None:
        return variance_share(every[..., each], cells % config.L)

    if head is None:
        head = max(range(config.n_heads), key=lambda each: by_count(each) or 0.0)
    shares = every[..., head]
    mean = shares.mean(-1)
    low, high = shares.amin((0, 2)), shares.amax((0, 2))

    sequences = task.sample("paper", n, T=config.T, L=config.L, generator=seed)
    counts = model.truth(sequences)
    moved = torch.stack(
        [set_share(model, sequences, mean[sequences, k], layer=layer, head=head) for k in range(config.L)], -1
    )  # [batch, pos, set_to]
    targets = torch.arange(1, config.L + 1).expand_as(moved)
    truth = counts[..., None].expand_as(moved)
    other = targets != truth
    table = torch.zeros(config.L, config.L, dtype=torch.float64)
    table.index_put_((truth - 1, targets - 1), moved.double(), accumulate=True)
    return BosShare(
        layer=layer,
        head=head,
        softmax=config.softmax,
        share=mean,
        low=low,
        high=high,
        by_count=by_count(head),
        by_token=variance_share(shares, cells // config.L),
        monotonicity=_kendall(mean),
        gap=_gap(low, high),
        predicted=table / torch.bincount(counts.flatten() - 1, minlength=config.L)[:, None],
        follows=float((moved == targets)[other].double().mean()),
        stays=float((moved == truth)[other].double().mean()),
        unmoved=float((moved == truth)[~other].double().mean()),
        accuracy=float((model.predict(sequences) == counts).double().mean()),
    )


def pattern_name(layer: int) -> str:
    return f"blocks.{layer}.attn.hook_pattern"


@torch.no_grad()
def set_share(
    model: CountingModel,
    tokens: Int[Tensor, "batch pos"],
    share: Float[Tensor, "batch pos"],
    *,
    layer: int = 0,
    head: int = 0,
) -> Int[Tensor, "batch pos"]:
    """Predicted counts when each position's attention to `$` is set to `share` and the rest of its row is rescaled."""

    def hook(pattern: Tensor, hook: object) -> Tensor:
        rows = pattern[:, head, 1 : 1 + model.config.L]
        rest = rows[..., 1:]
        if model.config.softmax:
            rest = rest * ((1 - share) / (1 - rows[..., 0]).clamp(min=1e-30))[..., None]
        moved = pattern.clone()
        moved[:, head, 1 : 1 + model.config.L] = torch.cat([share[..., None], rest], -1)
        return moved

    logits = model.run_with_hooks(tokens, fwd_hooks=[(pattern_name(layer), hook)])
    return logits.argmax(-1) + model.config.first_count


def _kendall(mean: Float[Tensor, "token count"]) -> float:
    """Kendall's tau between count and share, mean over tokens. Differences of rounding size are ties."""
    steps = mean[:, None, :] - mean[:, :, None]
    steps = torch.where(steps.abs() <= 8 * torch.finfo(mean.dtype).eps * mean.abs().max(), 0, steps.sign())
    upper = torch.ones(mean.shape[1], mean.shape[1], dtype=torch.bool).triu(1)
    return float(steps[:, upper].double().mean())


def _gap(low: Float[Tensor, "count"], high: Float[Tensor, "count"]) -> float:
    """Smallest distance between the intervals of two counts, in any order; negative where they overlap."""
    apart = torch.maximum(low[:, None] - high[None], low[None] - high[:, None])
    return float(apart[~torch.eye(len(low), dtype=torch.bool)].min())
