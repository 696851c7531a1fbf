"""The rule: from measured numbers to two axes, and from the axes to a label. Nothing here knows the architecture.

    accuracy too low                                -> unsolved
    comparison in the feed-forward layer            -> IC
    comparison in attention, read-out shared        -> RC      (by all tokens, or by groups of them)
    anything else                                   -> mixed

The thresholds were chosen on trained models that are not the ones `benchmarks/classifier.py` scores, half-way (or
nearly) between what solved models of the forced regimes show and what planted hybrids with weights 0.3 and 0.7 show.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from interp.classify.measure import Counting, Measures

SOLVED = 0.9  # mean over counts of the accuracy at each count
SOLVED_EACH = 0.5  # at the worst count
SURVIVES = 0.5  # of the slope before the swap: what a pair of tokens must keep to show whom it follows
GATED, ENOUGH = 0.3, 0.45  # the same, on average over all pairs: the count was gated, or there is enough to judge by
PURE = 0.8  # score from which on a mechanism counts as the only one
SHARED, INVENTORY = 0.6, 0.4  # transfer, relative to a token's own displacement
FEW_DIRECTIONS = 1 / 3  # of T: so few are shared, even if each by some of the tokens only
REPLICATES = 400
MECHANISMS = ("RC", "IC")

ATTENTION, FEED_FORWARD, SPLIT, UNCLEAR = "attention", "feed-forward", "split", "unclear"
SHARED_DIRECTION, SHARED_BY_GROUPS = "shared direction", "shared by groups"
PARTLY_SHARED, INVENTORY_READ = "partly shared", "inventory"


@dataclass(frozen=True)
class Ruling:
    """What the rule says of one set of measures."""

    label: str
    comparison: str
    readout: str
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    confidence: float
    layer: int
    follows: tuple[float, float]
    surviving: float
    transfer: float


def rule(measures: Measures, *, seed: int) -> Ruling:
    """Axes and label, with a bootstrap over token pairs for the intervals and the confidence."""
    rng = torch.Generator().manual_seed(seed)
    counted = measures.conflicts[0].unswapped_slope
    pairs = torch.stack([survivors(conflict.slopes, counted) for conflict in measures.conflicts], 1)
    by_layer = scores(pairs.mean(0), counted)  # pairs are [pair, layer, (survives, with t, with s, kept)]
    layer = int(by_layer[:, 0].argmax())
    read = measures.readout
    few = read.directions <= FEW_DIRECTIONS * read.T
    transfer = relative_transfer(read.transferred.mean(), read.own.mean())
    solved = is_solved(measures.counting)
    label = label_of(solved, by_layer[layer], transfer, few)

    resampled = scores(_resampled(pairs, rng), counted)  # [replicate, layer, 2]
    best = resampled[torch.arange(REPLICATES), resampled[..., 0].argmax(1)]
    transfers = relative_transfer(_resampled(read.transferred, rng), read.own.mean())
    same = [
        label_of(still_solved, both, other, few) == label
        for still_solved, both, other in zip(_solved_resampled(measures.counting, rng), best, transfers, strict=True)
    ]
    low, high = best.quantile(torch.tensor([0.025, 0.975], dtype=best.dtype), dim=0).tolist()
    return Ruling(
        label=label,
        comparison=comparison_of(by_layer[layer]) if solved else UNCLEAR,
        readout=readout_of(transfer, few) if solved else UNCLEAR,
        scores=dict(zip(MECHANISMS, by_layer[layer].tolist(), strict=True)),
        intervals={name: (low[i], high[i]) for i, name in enumerate(MECHANISMS)},
        confidence=(sum(same) + 1) / (len(same) + 2),
        layer=layer,
        follows=measures.conflicts[layer].follows,
        surviving=float(pairs[:, layer, 0].mean()),
        transfer=float(transfer),
    )


def survivors(slopes: Tensor, counted: float) -> Tensor:
    """Per pair: whether it keeps the count, and if so its slopes; and how much it keeps of the slope before the swap:
    [pair, (survives, with t, with s, kept)]. A negative slope keeps nothing; kept is the length of the two slopes, so
    that following both a little, as gated constructions do, is not taken for following one."""
    kept = slopes.clamp(min=0).norm(dim=-1, keepdim=True) / min(max(counted, 0.1), 1.0)
    survives = (kept >= SURVIVES).to(slopes)
    return torch.cat([survives, slopes * survives, kept], 1)


def scores(pairs: Tensor, counted: float) -> Tensor:
    """From means over pairs [..., (survives, with t, with s, kept)] to the scores [..., (RC, IC)].

    RC is the share that follows t, in the pairs that keep the count. Where little is kept on average, the count was
    gated by the identity on the self path, which speaks for IC. The two scores sum to one, or to less if there was no
    count to follow: `counted` is the slope before the swap.
    """
    _, with_t, with_s, kept = pairs.unbind(-1)
    with_t, with_s = with_t.clamp(min=0), with_s.clamp(min=0)
    enough = ((kept - GATED) / (ENOUGH - GATED)).clamp(0, 1)
    rc = with_t / (with_t + with_s).clamp(min=1e-12) * enough
    return torch.stack([rc, 1 - rc], -1) * min(max(2 * counted, 0.0), 1.0)


def relative_transfer(transferred: Tensor, own: Tensor) -> Tensor:
    """Another token's displacement against the token's own; zero where not even the latter moves the prediction."""
    return transferred / own if own > 0.1 else torch.zeros_like(transferred)


def is_solved(counting: Counting) -> bool:
    """By the accuracy at each count the model can know, so that neither frequent small counts nor a missing label of
    the published sampler decide. From L = 4 on, a model may also miss count L without having said why."""
    by_count = counting.by_count
    if not counting.knows_largest or (len(by_count) >= 4 and by_count[-1] < SOLVED_EACH):
        by_count = by_count[:-1]
    return bool(by_count.mean() >= SOLVED and by_count.min() >= SOLVED_EACH)


def label_of(solved: bool, both: Tensor, transfer: Tensor, few: bool) -> str:
    """`few`: whether few directions, compared with T, carry the count."""
    if not solved:
        return "unsolved"
    comparison = comparison_of(both)
    if comparison == FEED_FORWARD:
        return "IC"
    if comparison == ATTENTION and readout_of(transfer, few) in (SHARED_DIRECTION, SHARED_BY_GROUPS):
        return "RC"
    return "mixed"


def comparison_of(both: Tensor) -> str:
    rc, ic = both.tolist()
    return ATTENTION if rc >= PURE else FEED_FORWARD if ic >= PURE else SPLIT


def readout_of(transfer: Tensor, few: bool) -> str:
    if transfer >= SHARED:
        return SHARED_DIRECTION
    if few:
        return SHARED_BY_GROUPS
    return INVENTORY_READ if transfer <= INVENTORY else PARTLY_SHARED


def _resampled(values: Tensor, rng: torch.Generator) -> Tensor:
    """Means over pairs drawn with replacement: [pair, *rest] -> [replicate, *rest]."""
    index = torch.randint(len(values), (REPLICATES, len(values)), generator=rng)
    return values[index].mean(1)


def _solved_resampled(counting: Counting, rng: torch.Generator) -> list[bool]:
    """Whether the model counts as solved, with each count's accuracy drawn around what was measured."""
    by_count = counting.by_count
    spread = (by_count * (1 - by_count) / counting.seen.clamp(min=1)).sqrt()
    noise = torch.randn(REPLICATES, len(by_count), generator=rng, dtype=by_count.dtype)
    drawn = (by_count + spread * noise).clamp(0, 1) * counting.seen
    return [is_solved(Counting(counting.accuracy, right, counting.seen, counting.knows_largest)) for right in drawn]
