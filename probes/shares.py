"""From answers under transplants to three shares, their intervals, and a label.

Nothing here runs a model. `agreements` pools absolute differences of answers over rows and moves before it divides.
`shares` subtracts the null and takes the smaller of both directions. `label` gives the shares their short name. `odds`
says for how many models of known mechanism that label is right.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from counting_interp import data

KINDS = ("before", "own", "relation", "inventory", "null")  # before: only the phase is transplanted
UP, DOWN = 0, 1
MOVES = 0.2  # of the count: a direction is left out where own moves the answer less
NULL = 0.5  # a direction is left out where the null agrees more with own
SIDE_BY_SIDE = 0.9  # relay at or above this: positions do not pass the count on
HALF, QUARTER = 0.5, 0.25  # share that a label needs; share that no other mechanism may reach
EITHER = (1.5, 0.5)  # relation + inventory: above the first in one direction, below the second in the other
REPLICATES = 400
BANDS = (0.7, 0.9)  # edges of the bands of a share, for `odds`


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval, by bootstrap over rows of the design."""

    name: str
    value: float
    low: float
    high: float
    meaning: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Shares:
    """Which mechanism the count rests on, as three shares that sum to one.

    Attributes:
        rc: attention's match alone.
        ic: the layers after the mixer alone.
        gated: both together. Negative where either suffices in both directions.
    """

    rc: Estimate
    ic: Estimate
    gated: Estimate

    def __str__(self) -> str:
        return f"{self.rc}, {self.ic}, {self.gated}"

    def to_dict(self) -> dict[str, dict[str, float]]:
        return {e.name: {"value": e.value, "low": e.low, "high": e.high} for e in (self.rc, self.ic, self.gated)}


def agreements(
    answers: Num[Tensor, "kind pair move"],
    moves: Int[Tensor, "move 2"],
    rows: Num[Tensor, "*group pair"],
) -> Float[Tensor, "*group direction 4"]:
    """How far each transplant agrees with own, upwards and downwards.

    Args:
        answers: predicted counts under each of KINDS.
        moves: (i0, i1).
        rows: the weight of each row in each group.

    Returns:
        First, the change of the answer under own over the change of the count. Then for relation, inventory and null
        1 - sum |answer - answer under own| / sum |answer before - answer under own|; NaN where own moves nothing.
    """
    answers, rows = answers.double(), rows.double()
    step = (moves[:, 1] - moves[:, 0]).double()
    chosen = torch.stack([step > 0, step < 0]).double()
    missed = torch.einsum("...p,dm,kpm->...dk", rows, chosen, (answers - answers[1]).abs())
    moved = missed[..., :1]
    asked = rows.sum(-1)[..., None] * (chosen @ step.abs())
    agree = torch.where(moved > 0, 1 - missed[..., 2:] / moved, torch.nan)
    return torch.cat([moved / asked[..., None], agree], -1)


def best_inventory(
    answers: Int[Tensor, "kinds pair move"], moves: Int[Tensor, "move 2"]
) -> tuple[Int[Tensor, "kind pair move"], bool]:
    """The answers under each of KINDS, with the inventory whose share, net of its null, is larger.

    Args:
        answers: under each of KINDS, then perhaps under a second inventory and its null.

    Returns:
        The answers, and whether the second inventory and null are among them.
    """
    plain, everyone = answers[: len(KINDS)], torch.ones(answers.shape[1])
    if len(answers) == len(KINDS):
        return plain, False
    other = answers[[0, 1, 2, 5, 6]]
    ic = [float(shares(agreements(each, moves, everyone))[1]) for each in (plain, other)]
    return (other, True) if ic[1] > ic[0] else (plain, False)


def net(agree: Float[Tensor, "*group direction 4"]) -> Float[Tensor, "*group direction 2"]:
    """Relation and inventory net of the null, between 0 and 1; NaN in a direction that is left out."""
    null = agree[..., 3:].clamp_min(0)
    usable = (agree[..., :1] >= MOVES) & (null <= NULL)
    return torch.where(usable, ((agree[..., 1:3] - null) / (1 - null)).clamp(0, 1), torch.nan)


def shares(agree: Float[Tensor, "*group direction 4"]) -> Float[Tensor, "*group 3"]:
    """RC and IC from the smaller of the usable directions; gated is the rest. NaN where no direction is usable."""
    both = net(agree).nan_to_num(torch.inf).amin(-2)
    both = torch.where(both.isinf(), torch.nan, both)
    return torch.cat([both, 1 - both.sum(-1, keepdim=True)], -1)


def label(agree: Float[Tensor, "direction 4"]) -> str:
    """The short name of the agreements of one block; empty where no direction is usable."""
    rc, ic, gated = shares(agree).tolist()
    return name_of(rc, ic, gated, *net(agree).sum(-1).tolist())


def name_of(rc: float, ic: float, gated: float, up: float = torch.nan, down: float = torch.nan) -> str:
    """RC, IC, gated, mixed, or one of the special cases; empty where the shares are NaN.

    Args:
        rc, ic, gated: the shares.
        up, down: relation + inventory in either direction; NaN where a direction is left out.
    """
    high, low = EITHER
    if rc != rc:
        return ""
    if up > high and down < low:
        return "either suffices"
    if up < low and down > high:
        return "both needed"
    if rc >= QUARTER and ic >= QUARTER:
        return "mixed"
    if rc >= HALF or ic >= HALF:
        return "RC" if rc >= HALF else "IC"
    if ic >= QUARTER and ic >= gated:
        return "IC, sharpened by attention"
    return "gated" if gated >= HALF else "mixed"


def bootstrap(n: int, seed: int) -> Float[Tensor, "replicate pair"]:
    """Bootstrap weights: how often each of `n` rows is drawn. The first replicate has every row once."""
    drawn = torch.randint(n, (REPLICATES, n), generator=torch.Generator().manual_seed(seed))
    counted = torch.zeros(REPLICATES, n, dtype=torch.float64).scatter_add_(1, drawn, torch.ones(drawn.shape).double())
    return torch.cat([torch.ones(1, n, dtype=torch.float64), counted])


MEANINGS = {
    "RC": "attention's match is enough, and the read-out does not care which token matched",
    "IC": "no match is needed: the read-out finds the copies by itself",
    "gated": "both are needed: the match, and the token that is asked about",
}


CELLS = {
    "own": "copies of the token, to its own position: what they move, over the count",
    "relation": "copies of another token, to that token's own position",
    "inventory": "copies of the token, to a bystander",
    "null": "copies of another token, to a bystander",
}


def estimated(replicates: Float[Tensor, "replicate 3"]) -> Shares:
    """Shares with the values of the first replicate and intervals over the others."""
    columns = zip(MEANINGS, *interval(replicates), strict=True)
    return Shares(*(Estimate(name, value, low, high, MEANINGS[name]) for name, value, low, high in columns))


def interval(replicates: Float[Tensor, "replicate number"]) -> tuple[list[float], list[float], list[float]]:
    """Values of the first replicate, and the ends of the 95 % intervals over the others."""
    first, rest = replicates[0], replicates[1:]
    low, high = rest.nanquantile(torch.tensor([0.025, 0.975], dtype=rest.dtype), dim=0).tolist()
    return first.tolist(), low, high


def odds(label: str, blocks: int, share: float | None) -> tuple[int, int] | None:
    """How often this label is right, among models of known mechanism with a similar share and number of blocks.

    The counts are those of docs/tables/verdict-truths.csv.

    Args:
        share: share of the mechanism that the label names; None for other labels.

    Returns:
        (models with the right label, all models), or None where no such model was measured.
    """
    return _counts().get((label, depth(blocks), band(share)))


def depth(blocks: int) -> str:
    return "1" if blocks == 1 else "2-4" if blocks <= 4 else "more"


def band(share: float | None) -> str:
    if share is None:
        return ""
    return f"< {BANDS[0]}" if share < BANDS[0] else f"< {BANDS[1]}" if share < BANDS[1] else f">= {BANDS[1]}"


@cache
def _counts() -> dict[tuple[str, str, str], tuple[int, int]]:
    with data.verdict_odds().open(newline="", encoding="utf-8") as file:
        return {
            (row["label"], row["blocks"], row["share"]): (int(row["right"]), int(row["models"]))
            for row in csv.DictReader(file)
        }
