"""How many dimensions counting needs: what the paper says, what Welch allows, what we can build, what was trained.

The paper's bounds are its formulas evaluated. Its text sometimes says less: at T = 32, L = 10 the bound for `dot` and
`bos` with p = T is 8 (7.2 rounded up; the text says 7), and the softmax construction needs 8 (the text says 7).
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache

from counting_interp.data import certified, published
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions.frames import least_dimension, welch_bound

TRAINED_SIZE = (32, 10)  # the only (T, L) for which the published best accuracies are known cell by cell


def allowed_coherence(variant: str, p: int, T: int, L: int) -> float | None:
    """The coherence below which the paper's construction counts; None if it does not rest on coherence."""
    if variant in ("lin", "lin+sftm"):
        return 1 / (2 * L - 3) if p >= T else None
    if variant in ("dot", "bos"):
        return 1 / math.sqrt(L - 1) if p >= T else 1 / (2 * L - 3)
    return None


def paper_dimension(variant: str, p: int, T: int, L: int) -> int | None:
    """The paper's smallest d (Props. on coherence and softmax; its remark on d = 4 aside), None if it has none."""
    coherence = allowed_coherence(variant, p, T, L)
    if coherence is not None:
        return least_dimension(T, "coherence", coherence) + _tags(variant, p, T)
    if variant == "bos+sftm" or (variant == "dot+sftm" and p >= T):
        return math.ceil(math.log2(T + 1)) + 2
    return None


def _tags(variant: str, p: int, T: int) -> int:
    """Coordinates beside the frame: one tag where a single unit reads the count."""
    return 1 if variant in ("dot", "bos") and p < T else 0


@dataclass(frozen=True)
class Bound:
    """What is known about the smallest d of one variant at one p.

    Attributes:
        paper_d: the paper's bound; None if it has no construction.
        coherence: that the paper's bound allows, if it rests on coherence; welch: Welch's smallest at d = paper_d.
        our_d: the smallest d in which a construction provably counts; construction: its name.
        trained_d: the smallest d of the published grid with a run of 99 %, at the largest trained p up to this one;
            None if there is none, or if nothing is published for this (T, L).
        certified_d: the smallest d of a trained model with at most p hidden units that was proved correct on every
            sequence; None if there is none, or for other (T, L).
    """

    variant: str
    p: int
    T: int
    L: int
    paper_d: int | None
    coherence: float | None
    welch: float | None
    our_d: int | None
    construction: str | None
    trained_d: int | None
    certified_d: int | None


def bound(variant: str, p: int, T: int, L: int) -> Bound:
    """Everything that is known for this variant with p hidden units."""
    paper_d = paper_dimension(variant, p, T, L)
    coherence = allowed_coherence(variant, p, T, L)
    welch = welch_bound(T, paper_d - _tags(variant, p, T)) if coherence is not None and paper_d is not None else None
    our_d, construction = smallest_construction(variant, p, T, L)
    known = (T, L) == TRAINED_SIZE
    trained, certified = (find(variant, p) if known else None for find in (trained_dimension, certified_dimension))
    return Bound(variant, p, T, L, paper_d, coherence, welch, our_d, construction, trained, certified)


def bounds(T: int, L: int, hidden_units: list[int] | None = None) -> list[Bound]:
    """All variants, each with the given numbers of hidden units: 1 and T when absent."""
    if not 3 <= L <= T:
        raise ValueError(f"the bounds need 3 <= L <= T, got L={L}, T={T}")
    for p in hidden_units or []:
        if p < 1:
            raise ValueError(f"p must be at least 1, got {p}")
    return [bound(variant, p, T, L) for variant in VARIANTS for p in hidden_units or (1, T)]


def smallest_construction(variant: str, p: int, T: int, L: int) -> tuple[int | None, str | None]:
    """The smallest d of any construction with at most p hidden units, and its name (the simplest of equals)."""
    from counting_interp.models.constructions import CATALOGUE

    fitting = [entry for entry in CATALOGUE.values() if entry.variant == variant and entry.smallest_p(T, L) <= p]
    fitting = [entry for entry in fitting if entry.longest >= L]
    if not fitting:
        return None, None
    best = min(fitting, key=lambda entry: entry.smallest_d(T, L))
    return best.smallest_d(T, L), best.name


def trained_dimension(variant: str, p: int) -> int | None:
    """The smallest d with a run of 99 % or more at T = 32, L = 10, for the largest trained p that is at most `p`."""
    trained = [units for units in (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128) if units <= p]
    return _smallest("trained").get((variant, max(trained)))


def certified_dimension(variant: str, p: int) -> int | None:
    """The smallest d of a trained and certified model at T = 32, L = 10 with at most `p` hidden units."""
    return min(
        (d for (name, units), d in _smallest("certified").items() if name == variant and units <= p), default=None
    )


@lru_cache(maxsize=2)
def _smallest(what: str) -> dict[tuple[str, int], int]:
    """The smallest d by variant and p: `trained` to 99 % as published, or trained and `certified` here."""
    with (certified() if what == "certified" else published("trained_T32_L10")).open() as file:
        return {(row["variant"], int(row["p"])): int(row["d"]) for row in csv.DictReader(file)}
