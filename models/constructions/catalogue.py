"""The constructions as data: what each one is, where it comes from, how small it can be, and how to build it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from models.constructions import hybrid, ic_attention, ic_dot_sftm, ic_lin, rc_bos, rc_bos_sftm, rc_dot
from models.constructions.circuit import Circuit

Needs = Callable[[int, int], int]  # (T, L) -> a smallest size


@dataclass(frozen=True)
class Construction:
    """One entry.

    Attributes:
        mechanism: `RC`, `IC` or `mixed`.
        proposition: where the paper has it, or `ours`.
        bound: the smallest d in words, shown when it is violated.
        smallest_d, smallest_p: as functions of (T, L).
        conditions: anything else that must hold.
        options: further arguments, with their defaults.
    """

    name: str
    variant: str
    mechanism: str
    summary: str
    proposition: str
    bound: str
    smallest_d: Needs
    smallest_p: Needs
    build: Callable[..., Circuit]
    conditions: str = "L <= T"
    options: dict[str, float] = field(default_factory=dict)


def _one(T: int, L: int) -> int:
    return 1


def _alphabet(T: int, L: int) -> int:
    return T


def _alphabet_and_one(T: int, L: int) -> int:
    return T + 1


_RC_BOS = "Prop. 'RC with BOS token'"
_IC_LIN = "Prop. 'IC with memorization in the feed-forward layer'"
_ORTHOGONAL = "d >= T: the tokens are orthogonal"

_ENTRIES = [
    Construction(
        "rc-bos", "bos", "RC", "orthonormal tokens, $ their sum, one unit adds up the weights",
        _RC_BOS, _ORTHOGONAL, _alphabet, _one, rc_bos.bos,
    ),
    Construction(
        "rc-bos-tagged", "bos", "RC", "$ = 0 and tagged tokens, as in dot",
        _RC_BOS + ", alternative proof", _ORTHOGONAL, _alphabet, _one, rc_bos.bos_tagged,
    ),
    Construction(
        "rc-bos+sftm", "bos+sftm", "RC", "the share of attention on $ tells the count",
        _RC_BOS, _ORTHOGONAL, _alphabet, _one, rc_bos_sftm.share,
    ),
    Construction(
        "rc-dot", "dot", "RC", "tokens tagged with a common direction, one unit reads it",
        "Prop. 'RC with tagged embeddings'", _ORTHOGONAL, _alphabet, _one, rc_dot.tagged,
    ),
    Construction(
        "ic-lin", "lin", "IC", "uniform mixing, one unit per token",
        _IC_LIN, _ORTHOGONAL, _alphabet, _alphabet, ic_lin.inventory,
    ),
    Construction(
        "ic-lin+sftm", "lin+sftm", "IC", "uniform mixing, one unit per token",
        _IC_LIN, _ORTHOGONAL, _alphabet, _alphabet, ic_lin.inventory,
    ),
    Construction(
        "ic-dot+sftm", "dot+sftm", "IC", "one unit per token reads the share of its copies",
        "Prop. 'IC for dot+sftm'", _ORTHOGONAL, _alphabet, _alphabet, ic_dot_sftm.share,
    ),
    Construction(
        "ic-dot", "dot", "IC", "constant attention through a common coordinate, one unit per token",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, ic_attention.dot,
    ),
    Construction(
        "ic-bos", "bos", "IC", "constant attention through a common coordinate, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, ic_attention.bos,
    ),
    Construction(
        "ic-bos+sftm", "bos+sftm", "IC", "no comparison: equal shares for all, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, ic_attention.bos_sftm,
    ),
    Construction(
        "hybrid-dot", "dot", "mixed", "an RC and an IC circuit, read out as w RC + (1 - w) IC",
        "ours", _ORTHOGONAL, _alphabet, _alphabet_and_one, hybrid.dot,
        options={"weight": 0.5, "leak": 0.02},
    ),
    Construction(
        "hybrid-bos", "bos", "mixed", "an RC and an IC circuit, read out as w RC + (1 - w) IC, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet_and_one, hybrid.bos,
        options={"weight": 0.5, "leak": 0.02},
    ),
    Construction(
        "hybrid-bos+sftm", "bos+sftm", "mixed", "RC by the share of $, IC by that of each token, w RC + (1 - w) IC",
        "ours", "d > T: orthogonal tokens and $", _alphabet_and_one, _alphabet_and_one, hybrid.bos_sftm,
        options={"weight": 0.5, "leak": 0.05},
    ),
]  # fmt: skip

CATALOGUE: dict[str, Construction] = {entry.name: entry for entry in _ENTRIES}
