"""The constructions as data: what each one is, where it comes from, how small it can be, and how to build it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from counting_interp.models.config import MAX_SIZE
from counting_interp.models.constructions import inventory, relation
from counting_interp.models.constructions.circuit import Circuit
from counting_interp.models.constructions.frames import known_dimension, least_dimension

Needs = Callable[[int, int], int]  # (T, L) -> a smallest size


@dataclass(frozen=True)
class Construction:
    """One entry.

    Attributes:
        mechanism: `RC`, `IC` or `mixed`, as the verdict's interventions show it.
        case: of `mixed`: `hybrid`, or `gated` (attention compares, and the feed-forward layer reads the result token
            by token; the paper lists these under IC).
        proposition: where the paper has it, or `ours`.
        bound: the smallest d in words, for the error where d is smaller.
        smallest_d, smallest_p: functions of (T, L); for searched embeddings the smallest d that is known to work.
        least_d: no d below it can work. Between it and smallest_d a search is made and may fail. Default: smallest_d.
        dtype: the default precision.
        conditions: further conditions in words; longest: the largest L that they allow.
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
    least_d: Needs | None = None
    dtype: str = "float32"
    longest: int = MAX_SIZE
    case: str = ""


def _one(T: int, L: int) -> int:
    return 1


def _alphabet(T: int, L: int) -> int:
    return T


def _alphabet_and_one(T: int, L: int) -> int:
    return T + 1


def _framed(
    name: str,
    variant: str,
    mechanism: str,
    build: Callable[..., Circuit],
    measure: str,
    need: Callable[[int], float],
    *,
    proposition: str,
    p: Needs,
    tags: int = 0,
    limit: str = "1/(2L-3)",
    case: str = "",
) -> Construction:
    """An entry whose tokens are a searched frame, with `tags` more coordinates.

    Args:
        build: called with the measure of the frame and, in `dot` and `bos`, whether the model has `$`.
    """
    build = partial(build, measure=measure)
    if variant in ("dot", "bos"):
        build = partial(build, bos=variant == "bos")
    overlaps = {
        "coherence": "overlaps that are small",
        "band": "overlaps that are nearly equal",
        "squares": "squared overlaps that are nearly equal",
    }[measure]
    space = "R^(d-1)" if tags else "R^d"
    return Construction(
        name, variant, mechanism, f"a frame with {overlaps}{GATED if case == 'gated' else ''}", proposition,
        f"T vectors in {space} with {measure} below {limit}",
        lambda T, L: known_dimension(T, measure, need(L)) + tags, p, build,
        least_d=lambda T, L: least_dimension(T, measure, need(L)) + tags,
        conditions=f"L <= T; a frame with {measure} below {limit} is found", case=case,
    )  # fmt: skip


GATED = "; gated, in the paper under IC"
_COHERENCE = "Prop. 'Robustness via bounded mutual coherence'"
_SOFTMAX = "Prop. 'Robustness via softmax error-reduction'"
_RC_BOS = "Prop. 'RC with BOS token'"
_IC_LIN = "Prop. 'IC with memorization in the feed-forward layer'"
_ORTHOGONAL = "d >= T: the tokens are orthogonal"

_ENTRIES = [
    Construction(
        "rc-bos", "bos", "RC", "orthonormal tokens, $ their sum, one unit adds up the weights",
        _RC_BOS, _ORTHOGONAL, _alphabet, _one, relation.bos,
    ),
    Construction(
        "rc-bos-tagged", "bos", "RC", "$ = 0 and tagged tokens, as in dot",
        _RC_BOS + ", alternative proof", _ORTHOGONAL, _alphabet, _one, partial(relation.tagged, bos=True),
    ),
    Construction(
        "rc-bos+sftm", "bos+sftm", "RC", "the share of attention on $ tells the count",
        _RC_BOS, _ORTHOGONAL, _alphabet, _one, relation.bos_share,
    ),
    Construction(
        "rc-dot", "dot", "RC", "tokens tagged with a common direction, one unit reads it",
        "Prop. 'RC with tagged embeddings'", _ORTHOGONAL, _alphabet, _one, partial(relation.tagged, bos=False),
    ),
    *(
        Construction(
            f"ic-{variant}", variant, "IC", "uniform mixing, one unit per token",
            _IC_LIN, _ORTHOGONAL, _alphabet, _alphabet, inventory.lin,
        )
        for variant in ("lin", "lin+sftm")
    ),
    Construction(
        "ic-dot+sftm", "dot+sftm", "IC", "one unit per token reads the share of its copies",
        "Prop. 'IC for dot+sftm'", _ORTHOGONAL, _alphabet, _alphabet, inventory.dot_sftm,
    ),
    Construction(
        "ic-dot", "dot", "IC", "constant attention through a common coordinate, one unit per token",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, partial(inventory.constant, bos=False),
    ),
    Construction(
        "ic-bos", "bos", "IC", "constant attention through a common coordinate, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, partial(inventory.constant, bos=True),
    ),
    Construction(
        "ic-bos+sftm", "bos+sftm", "IC", "no comparison: equal shares for all, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, inventory.bos_sftm,
    ),
    *(
        Construction(
            f"hybrid-{variant}", variant, "mixed", "an RC and an IC circuit, read out as w RC + (1 - w) IC" + bos,
            "ours", _ORTHOGONAL, _alphabet, _alphabet_and_one, partial(inventory.hybrid, bos=variant == "bos"),
            options={"weight": 0.5, "leak": 0.02}, case="hybrid",
        )
        for variant, bos in (("dot", ""), ("bos", ", $ = 0"))
    ),
    Construction(
        "hybrid-bos+sftm", "bos+sftm", "mixed", "RC by the share of $, IC by that of each token, w RC + (1 - w) IC",
        "ours", "d > T: orthogonal tokens and $", _alphabet_and_one, _alphabet_and_one, inventory.hybrid_bos_sftm,
        options={"weight": 0.5, "leak": 0.05}, case="hybrid",
    ),
    *(
        _framed(f"ic-{variant}-coherence", variant, "IC", inventory.framed, "coherence", inventory.needed_overlap,
                proposition=_COHERENCE, p=_alphabet)
        for variant in ("lin", "lin+sftm")
    ),
    *(
        _framed(f"rc-{variant}-coherence", variant, "RC", relation.framed, "coherence", relation.needed_overlap,
                proposition=_COHERENCE, p=_one, tags=1)
        for variant in ("dot", "bos")
    ),
    *(
        _framed(f"ic-{variant}-coherence", variant, "mixed", inventory.gated, "coherence", inventory.needed_coherence,
                proposition=_COHERENCE, p=_alphabet, limit="1/sqrt(L-1)", case="gated")
        for variant in ("dot", "bos")
    ),
    *(
        _framed(f"ic-{variant}-compact", variant, "IC", inventory.framed, "band", inventory.needed_overlap,
                proposition="ours", p=_alphabet)
        for variant in ("lin", "lin+sftm")
    ),
    *(
        _framed(f"rc-{variant}-compact", variant, "RC", relation.framed, "band", relation.needed_overlap,
                proposition="ours", p=_one, tags=1)
        for variant in ("dot", "bos")
    ),
    *(
        _framed(f"ic-{variant}-compact", variant, "mixed", inventory.gated, "squares", inventory.needed_squares,
                proposition="ours", p=_alphabet, case="gated")
        for variant in ("dot", "bos")
    ),
    _framed("ic-dot+sftm-compact", "dot+sftm", "IC", inventory.dot_sftm_framed, "band", inventory.needed_band,
            proposition="ours", p=_alphabet, limit="what the best inverse temperature tolerates (0.44 at L = 10)"),
    Construction(
        "ic-dot+sftm-binary", "dot+sftm", "IC", "binary words with two ones, at an inverse temperature of order one",
        _SOFTMAX + ", second half, with other words and another inverse temperature",
        "d (d-1)/2 >= T words", lambda T, L: inventory.word_length(T), _alphabet, inventory.dot_sftm_binary,
        conditions="L <= min(T, 13)", longest=13,
    ),
    Construction(
        "rc-bos+sftm-binary", "bos+sftm", "RC", "binary words, sharply compared: the share of $ tells the count",
        _SOFTMAX, "d >= ceil(log2(T+1)) + 2", lambda T, L: math.ceil(math.log2(T + 1)) + 2, _one,
        relation.bos_sftm_binary,
    ),
    Construction(
        "rc-bos+sftm-arc", "bos+sftm", "RC", "tokens on a quarter circle, very sharply compared",
        _SOFTMAX + ", remark on d = 4", "d >= 4", lambda T, L: 4, _one, relation.bos_sftm_arc,
        dtype="float64",
    ),
    Construction(
        "rc-bos+sftm-sign", "bos+sftm", "RC", "sign vectors, and one coordinate that is both score and read-out of $",
        "ours", "d >= ceil(log2 T) + 1", lambda T, L: relation.sign_width(T) + 1, _one,
        relation.bos_sftm_sign,
    ),
    Construction(
        "rc-bos+sftm-circle", "bos+sftm", "RC", "tokens on a circle, and one coordinate for $",
        "ours", "d >= 3", lambda T, L: 3, _one, relation.bos_sftm_circle,
    ),
]  # fmt: skip

CATALOGUE: dict[str, Construction] = {entry.name: entry for entry in _ENTRIES}
