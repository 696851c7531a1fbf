"""The rule: from measured numbers to two axes, and from the axes to a label. Nothing here knows the architecture.

    accuracy too low                                -> unsolved
    comparison in the feed-forward layer            -> IC
    comparison in attention, read-out shared        -> RC
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
SURVIVES, LOST = 0.6, 0.3  # how much of the count the swap leaves: enough to see whom it follows, or nothing to follow
PURE = 0.85  # score from which on a mechanism counts as the only one
SHARED, INVENTORY = 0.6, 0.4  # transfer, relative to a token's own displacement
REPLICATES = 400
MECHANISMS = ("RC", "IC")

ATTENTION, FEED_FORWARD, SPLIT, UNCLEAR = "attention", "feed-forward", "split", "unclear"
SHARED_DIRECTION, PARTLY_SHARED, INVENTORY_READ = "shared direction", "partly shared", "inventory"


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
    transfer: float


def rule(measures: Measures, *, seed: int) -> Ruling:
    """Axes and label, with a bootstrap over token pairs for the intervals and the confidence."""
    rng = torch.Generator().manual_seed(seed)
    slopes = torch.stack([conflict.slopes for conflict in measures.conflicts])  # [layer, pair, 2]
    counted = measures.conflicts[0].unswapped_slope
    by_layer = scores(slopes.mean(1), counted)
    layer = int(by_layer[:, 0].argmax())
    transfer = relative_transfer(measures.readout.transferred.mean(), measures.readout.own.mean())
    solved = is_solved(measures.counting)
    label = label_of(solved, by_layer[layer], transfer)

    resampled = scores(_resampled(slopes.transpose(0, 1), rng), counted)  # [replicate, layer, 2]
    best = resampled[torch.arange(REPLICATES), resampled[..., 0].argmax(1)]
    transfers = relative_transfer(_resampled(measures.readout.transferred, rng), measures.readout.own.mean())
    same = [
        label_of(still_solved, pair, other) == label
        for still_solved, pair, other in zip(_solved_resampled(measures.counting, rng), best, transfers, strict=True)
    ]
    low, high = best.quantile(torch.tensor([0.025, 0.975], dtype=best.dtype), dim=0).tolist()
    with_t, with_s = slopes[layer].mean(0).tolist()
    return Ruling(
        label=label,
        comparison=comparison_of(by_layer[layer]) if solved else UNCLEAR,
        readout=readout_of(transfer) if solved else UNCLEAR,
        scores=dict(zip(MECHANISMS, by_layer[layer].tolist(), strict=True)),
        intervals={name: (low[i], high[i]) for i, name in enumerate(MECHANISMS)},
        confidence=(sum(same) + 1) / (len(same) + 2),
        layer=layer,
        follows=(with_t, with_s),
        transfer=float(transfer),
    )


def scores(follows: Tensor, counted: float) -> Tensor:
    """From the slopes [..., (t, s)] after the swap to the scores [..., (RC, IC)].

    RC is the share that follows t, of what survives the swap. Where less than SURVIVES of the slope before the swap
    (`counted`, one for a model that counts) is left, the loss counts more and more as being gated by the identity on
    the self path, that is, for IC, and below LOST as nothing else. A negative slope follows nobody. The two scores sum
    to one, or to less if there was no count to follow.
    """
    with_t, with_s = follows.clamp(min=0).unbind(-1)
    both = with_t + with_s
    survived = (both / max(counted, 0.1) - LOST) / (SURVIVES - LOST)
    rc = with_t / both.clamp(min=1e-12) * survived.clamp(0, 1)
    presence = both.clamp(min=counted).clamp(0, 1)
    return torch.stack([rc, 1 - rc], -1) * presence[..., None]


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


def label_of(solved: bool, both: Tensor, transfer: Tensor) -> str:
    if not solved:
        return "unsolved"
    comparison = comparison_of(both)
    if comparison == FEED_FORWARD:
        return "IC"
    if comparison == ATTENTION and readout_of(transfer) == SHARED_DIRECTION:
        return "RC"
    return "mixed"


def comparison_of(both: Tensor) -> str:
    rc, ic = both.tolist()
    return ATTENTION if rc >= PURE else FEED_FORWARD if ic >= PURE else SPLIT


def readout_of(transfer: Tensor) -> str:
    return SHARED_DIRECTION if transfer >= SHARED else INVENTORY_READ if transfer <= INVENTORY else PARTLY_SHARED


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
