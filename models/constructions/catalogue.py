"""The constructions as data: what each one is, where it comes from, how small it can be, and how to build it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from counting_interp.models.config import MAX_SIZE
from counting_interp.models.constructions import inventory, mixtures, relation
from counting_interp.models.constructions.circuit import Circuit
from counting_interp.models.constructions.frames import known_dimension, least_dimension

Needs = Callable[[int, int], int]  # (T, L) -> a smallest size


@dataclass(frozen=True)
class Construction:
    """One entry.

    Attributes:
        mechanism: `RC`, `IC` or `mixed`, as the verdict's interventions show it.
        case: for `mixed`, which: `hybrid`, or `gated` (attention compares, the feed-forward layer reads the result
            token by token: the paper lists these under IC).
        proposition: where the paper has it, or `ours`.
        bound: the smallest d in words, shown when it is violated.
        smallest_d, smallest_p: as functions of (T, L); for searched embeddings the smallest d that is known to work.
        least_d: no d below it can work; equal to smallest_d except for searched embeddings. In between, a search is
            made and may fail.
        dtype: the precision in which it is built unless another is asked for.
        conditions: anything else that must hold; longest: the largest L they allow.
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


def _known(measure: str, need: Callable[[int], float], tags: int = 0) -> Needs:
    return lambda T, L: known_dimension(T, measure, need(L)) + tags


def _least(measure: str, need: Callable[[int], float], tags: int = 0) -> Needs:
    return lambda T, L: least_dimension(T, measure, need(L)) + tags


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

    `build` is called with the measure of the frame and, for variants without softmax that attend, whether `$` is there.
    """
    build = partial(build, measure=measure)
    if variant in ("dot", "bos"):
        build = partial(build, bos=variant == "bos")
    things = {
        "coherence": "overlaps that are small",
        "band": "overlaps that are nearly equal",
        "squares": "squared overlaps that are nearly equal",
    }
    space = "R^(d-1)" if tags else "R^d"
    return Construction(
        name, variant, mechanism, f"a frame with {things[measure]}{GATED if case == 'gated' else ''}", proposition,
        f"T vectors in {space} with {measure} below {limit}",
        _known(measure, need, tags), p, build, least_d=_least(measure, need, tags),
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
        _RC_BOS + ", alternative proof", _ORTHOGONAL, _alphabet, _one, relation.bos_tagged,
    ),
    Construction(
        "rc-bos+sftm", "bos+sftm", "RC", "the share of attention on $ tells the count",
        _RC_BOS, _ORTHOGONAL, _alphabet, _one, relation.bos_share,
    ),
    Construction(
        "rc-dot", "dot", "RC", "tokens tagged with a common direction, one unit reads it",
        "Prop. 'RC with tagged embeddings'", _ORTHOGONAL, _alphabet, _one, relation.dot_tagged,
    ),
    Construction(
        "ic-lin", "lin", "IC", "uniform mixing, one unit per token",
        _IC_LIN, _ORTHOGONAL, _alphabet, _alphabet, inventory.lin,
    ),
    Construction(
        "ic-lin+sftm", "lin+sftm", "IC", "uniform mixing, one unit per token",
        _IC_LIN, _ORTHOGONAL, _alphabet, _alphabet, inventory.lin,
    ),
    Construction(
        "ic-dot+sftm", "dot+sftm", "IC", "one unit per token reads the share of its copies",
        "Prop. 'IC for dot+sftm'", _ORTHOGONAL, _alphabet, _alphabet, inventory.dot_sftm,
    ),
    Construction(
        "ic-dot", "dot", "IC", "constant attention through a common coordinate, one unit per token",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, inventory.dot,
    ),
    Construction(
        "ic-bos", "bos", "IC", "constant attention through a common coordinate, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, inventory.bos,
    ),
    Construction(
        "ic-bos+sftm", "bos+sftm", "IC", "no comparison: equal shares for all, one unit per token, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet, inventory.bos_sftm,
    ),
    Construction(
        "hybrid-dot", "dot", "mixed", "an RC and an IC circuit, read out as w RC + (1 - w) IC",
        "ours", _ORTHOGONAL, _alphabet, _alphabet_and_one, mixtures.hybrid_dot,
        options={"weight": 0.5, "leak": 0.02}, case="hybrid",
    ),
    Construction(
        "hybrid-bos", "bos", "mixed", "an RC and an IC circuit, read out as w RC + (1 - w) IC, $ = 0",
        "ours", _ORTHOGONAL, _alphabet, _alphabet_and_one, mixtures.hybrid_bos,
        options={"weight": 0.5, "leak": 0.02}, case="hybrid",
    ),
    Construction(
        "hybrid-bos+sftm", "bos+sftm", "mixed", "RC by the share of $, IC by that of each token, w RC + (1 - w) IC",
        "ours", "d > T: orthogonal tokens and $", _alphabet_and_one, _alphabet_and_one, mixtures.hybrid_bos_sftm,
        options={"weight": 0.5, "leak": 0.05}, case="hybrid",
    ),
    *(
        _framed(f"ic-{variant}-coherence", variant, "IC", inventory.framed, "coherence", inventory.needed_overlap,
                proposition=_COHERENCE, p=_alphabet)
        for variant in ("lin", "lin+sftm")
    ),
    _framed("rc-dot-coherence", "dot", "RC", relation.framed, "coherence", relation.needed_overlap,
            proposition=_COHERENCE, p=_one, tags=1),
    _framed("rc-bos-coherence", "bos", "RC", relation.framed, "coherence", relation.needed_overlap,
            proposition=_COHERENCE, p=_one, tags=1),
    _framed("ic-dot-coherence", "dot", "mixed", mixtures.gated, "coherence", mixtures.needed_coherence,
            proposition=_COHERENCE, p=_alphabet, limit="1/sqrt(L-1)", case="gated"),
    _framed("ic-bos-coherence", "bos", "mixed", mixtures.gated, "coherence", mixtures.needed_coherence,
            proposition=_COHERENCE, p=_alphabet, limit="1/sqrt(L-1)", case="gated"),
    *(
        _framed(f"ic-{variant}-compact", variant, "IC", inventory.framed, "band", inventory.needed_overlap,
                proposition="ours", p=_alphabet)
        for variant in ("lin", "lin+sftm")
    ),
    _framed("rc-dot-compact", "dot", "RC", relation.framed, "band", relation.needed_overlap,
            proposition="ours", p=_one, tags=1),
    _framed("rc-bos-compact", "bos", "RC", relation.framed, "band", relation.needed_overlap,
            proposition="ours", p=_one, tags=1),
    _framed("ic-dot-compact", "dot", "mixed", mixtures.gated, "squares", mixtures.needed_squares,
            proposition="ours", p=_alphabet, case="gated"),
    _framed("ic-bos-compact", "bos", "mixed", mixtures.gated, "squares", mixtures.needed_squares,
            proposition="ours", p=_alphabet, case="gated"),
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
