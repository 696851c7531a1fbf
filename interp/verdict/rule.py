"""The rule: from measured numbers to a label. Nothing here knows the architecture.

Two causal questions. *Does attention compare?* `kept` is what is left of the count when attention can find equal tokens
in no block. *Must the rest know the token?* `with_t` and `with_s` say whose count the prediction follows when attention
has compared for t and the self path says s; `transfer` says how far one token's count displacement works for another.

    it does not count well enough                                            -> unsolved
    little is kept, and the prediction follows t or displacements transfer   -> RC
    much is kept, and the prediction follows s                               -> IC
    anything else                                                            -> mixed, with its case named

All four numbers are relative to what the unchanged model does. The thresholds lie between what models of known
mechanism show and what planted hybrids of weight 0.3 and 0.7 show; docs/verdict.md has the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.interp.verdict.measure import Counting, Measures

SOLVED = 0.9  # accuracy on the model's own distribution
RESPONDS = 0.5  # slope of the prediction over the count, before anything is changed
LOST, SURVIVES = 0.25, 0.5  # `kept`: attention's comparison carries the count; the count does without it
FOLLOWS = 0.3  # `with_t` or `with_s`: what it takes to have followed; trained RC models lose some pairs of tokens
ALONE = 0.85  # of both slopes: then the prediction follows one of the two and not the other
TRANSFERS = 0.6  # `transfer`: the count is written the same way for most tokens
SPREAD = 0.05  # how far a number may be from what other sequences, donors or fillers would have given, beyond sampling
UNANIMOUS = 0.95  # of the replicates: for a lean of an unsolved model
REPLICATES = 400
SLOPES = ("kept", "with_t", "with_s", "transfer")

CASES = {
    "relation": "attention compares, and the count is read without knowing the token",
    "inventory": "the feed-forward layer compares with a memory of every token",
    "gated": "attention compares, the feed-forward layer reads the result token by token",
    "hybrid": "both mechanisms carry part of the count",
    "redundant": "attention's comparison suffices for the count, but the count does without it, too",
    "unreadable": "the count does without attention's comparison, but follows neither token when they disagree",
    "contradictory": "without attention's comparison the count is lost, and yet it follows the token on the self path",
}
LABEL_OF_CASE = {"relation": "RC", "inventory": "IC"}


@dataclass(frozen=True)
class Numbers:
    """What the rule looks at; see above."""

    accuracy: float
    slope: float
    kept: float
    with_t: float
    with_s: float
    transfer: float

    @property
    def solved(self) -> bool:
        return self.accuracy >= SOLVED and self.slope >= RESPONDS


@dataclass(frozen=True)
class Ruling:
    """What the rule says of one set of measures.

    Attributes:
        label: `RC`, `IC`, `mixed` or `unsolved`.
        case: which of `CASES`; None for an unsolved model.
        leans: what an unsolved model would be called, where the evidence is unanimous: a label, or `gated`.
        numbers: what this rests on.
        intervals: 95 % intervals of `SLOPES`, by bootstrap over token pairs.
        confidence: share of the replicates (pairs drawn anew, each number moved by SPREAD, accuracy drawn anew) that
            come to the same label; None for an unsolved model.
        layer: the block whose self path was judged.
    """

    label: str
    case: str | None
    leans: str | None
    numbers: Numbers
    intervals: dict[str, tuple[float, float]]
    confidence: float | None
    layer: int


def rule(measures: Measures, *, seed: int) -> Ruling:
    rng = torch.Generator().manual_seed(seed)
    layer = judged_layer(measures)
    numbers = numbers_of(measures, layer)
    case = case_of(numbers)
    drawn = _replicates(measures, layer, rng)  # [replicate, (slopes)]
    low, high = drawn.quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype), dim=0).tolist()
    moved = (drawn + SPREAD * torch.randn(drawn.shape, generator=rng, dtype=drawn.dtype)).tolist()
    accuracies = _accuracies(measures.counting, rng)
    replicates = [Numbers(accuracy, numbers.slope, *row) for accuracy, row in zip(accuracies, moved, strict=True)]
    agree = sum(case_of(one) == case for one in replicates) / REPLICATES
    same = sum(one.solved and label_of(case_of(one)) == label_of(case) for one in replicates)
    return Ruling(
        label=label_of(case) if numbers.solved else "unsolved",
        case=case if numbers.solved else None,
        leans=_lean(case) if not numbers.solved and numbers.slope >= RESPONDS and agree >= UNANIMOUS else None,
        numbers=numbers,
        intervals={name: (low[i], high[i]) for i, name in enumerate(SLOPES)},
        confidence=(same + 1) / (REPLICATES + 2) if numbers.solved else None,
        layer=layer,
    )


def case_of(numbers: Numbers) -> str:
    """Which of CASES the slopes show, whether the model counts well or not."""
    kept, with_t, with_s = numbers.kept, max(numbers.with_t, 0.0), max(numbers.with_s, 0.0)
    follows_t = with_t >= FOLLOWS and with_t >= ALONE * (with_t + with_s)
    follows_s = with_s >= FOLLOWS and with_s >= ALONE * (with_t + with_s)
    if kept <= LOST:
        if follows_t or (numbers.transfer >= TRANSFERS and with_s < FOLLOWS):
            return "relation"
        return "gated" if with_s < FOLLOWS else "contradictory"
    if kept >= SURVIVES and follows_s:
        return "inventory"
    if kept >= SURVIVES and follows_t:
        return "redundant"
    if kept >= SURVIVES and with_t + with_s < FOLLOWS:
        return "unreadable"
    return "hybrid"


def label_of(case: str) -> str:
    return LABEL_OF_CASE.get(case, "mixed")


def judged_layer(measures: Measures) -> int:
    """The block whose comparison the count needs most; among blocks where that is alike, the one whose self path tells
    most."""
    kept = [
        _relative(flattening.slopes[:, 0].mean(), flattening.unchanged_slope) for flattening in measures.flattenings
    ]
    told = [conflict.slopes.mean(0).abs().sum() for conflict in measures.conflicts]
    near = [layer for layer, left in enumerate(kept) if left <= min(kept) + 0.1]
    return max(near, key=lambda layer: float(told[layer]))


def numbers_of(measures: Measures, layer: int) -> Numbers:
    conflict, read = measures.conflicts[layer], measures.readout
    with_t, with_s = conflict.slopes.mean(0)
    slope = conflict.unchanged_slope
    return Numbers(
        accuracy=measures.counting.accuracy,
        slope=slope,
        kept=float(_relative(measures.flattened.slopes[:, 0].mean(), slope)),
        with_t=float(_relative(with_t, slope)),
        with_s=float(_relative(with_s, slope)),
        transfer=float(_relative(read.transferred.mean(), float(read.own.mean()))),
    )


def _relative(value: Tensor, whole: float) -> Tensor:
    """Against what the unchanged model does; against a tenth of a count where it does next to nothing."""
    return value / max(whole, 0.1)


def _lean(case: str) -> str | None:
    return LABEL_OF_CASE.get(case, case if case == "gated" else None)


def _replicates(measures: Measures, layer: int, rng: torch.Generator) -> Float[Tensor, "replicate 4"]:
    """SLOPES with the pairs of tokens drawn with replacement, those of both interventions together."""
    conflict, read = measures.conflicts[layer], measures.readout
    pairs = torch.cat([measures.flattened.slopes[:, :1], conflict.slopes], 1)
    slopes = _relative(_resampled(pairs, rng), conflict.unchanged_slope)
    transfers = _relative(_resampled(read.transferred, rng), float(read.own.mean()))
    return torch.cat([slopes, transfers[:, None]], 1)


def _resampled(values: Tensor, rng: torch.Generator) -> Tensor:
    """Means over pairs drawn with replacement: [pair, *rest] -> [replicate, *rest]."""
    index = torch.randint(len(values), (REPLICATES, len(values)), generator=rng)
    return values[index].mean(1)


def _accuracies(counting: Counting, rng: torch.Generator) -> list[float]:
    """The accuracy drawn around what was measured; sequences are independent, their positions are not."""
    spread = float(counting.shares.std(correction=0)) / len(counting.shares) ** 0.5
    noise = torch.randn(REPLICATES, generator=rng, dtype=torch.float64)
    return (counting.accuracy + spread * noise).tolist()
