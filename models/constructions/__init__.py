"""Counters built by hand, as ordinary models: every construction of the paper, and smaller ones of our own.

    >>> from counting_interp.models.constructions import CATALOGUE, construct
    >>> model = construct("rc-dot", T=32, L=10)           # the smallest d and p
    >>> model = construct("ic-lin", T=32, L=10, d=40, p=50, n_classes=11)
    >>> model.metadata["mechanism"]["label"]
    'IC'

`relation` and `inventory` hold the constructions, each with its derivation, and `catalogue` lists them. `circuit` turns
weights into a model: it proves between which values a scalar lies, and reads classes from it.
"""

from __future__ import annotations

from typing import Any

from counting_interp.models.constructions.catalogue import CATALOGUE, Construction
from counting_interp.models.constructions.circuit import Size, assemble
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.text import did_you_mean

__all__ = ["CATALOGUE", "Construction", "construct", "sizes"]


def construct(
    name: str,
    T: int = 32,
    L: int = 10,
    d: int | None = None,
    p: int | None = None,
    n_classes: int | None = None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    **options: Any,
) -> CountingTransformer:
    """Build a model by name. It counts correctly on every sequence.

    Args:
        name: an entry of CATALOGUE.
        T, L: size of the alphabet and length of the sequences.
        d, p: embedding dimension and hidden units; the smallest that the construction needs when absent.
        n_classes: L (default), or L + 1 as in the published layout.
        dtype: `float32` or `float64`; when absent, float32 except where the entry says otherwise.
        seed: of constructions that search for their embeddings; the same seed gives the same weights.
        options: those that the entry lists.

    Raises:
        ValueError: an unknown name or option, or a size that the construction cannot serve.
    """
    if name not in CATALOGUE:
        raise ValueError(f"there is no construction {name!r}; {did_you_mean(name, CATALOGUE)}")
    entry = CATALOGUE[name]
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        known = f"its options are {', '.join(sorted(entry.options))}" if entry.options else "it has none"
        raise ValueError(f"{name} has no option {unknown[0]!r}; {known}")
    _check_task(T, L)
    least_d, least_p = (entry.least_d or entry.smallest_d)(T, L), entry.smallest_p(T, L)
    size = Size(T, L, entry.smallest_d(T, L) if d is None else d, least_p if p is None else p, seed)
    if size.d < least_d:
        raise ValueError(f"{name} needs d >= {least_d} at T={T}, L={L}: {entry.bound}; got d={size.d}")
    if size.p < least_p:
        units = "one hidden unit per token" if least_p >= T else "hidden units"
        raise ValueError(f"{name} needs p >= {least_p} at T={T}, L={L} ({units}); got p={size.p}")
    mechanism = {"label": entry.mechanism, "construction": name, "proposition": entry.proposition}
    mechanism |= {"case": entry.case} if entry.case else {}
    try:
        circuit = entry.build(size, **{**entry.options, **options})
        return assemble(
            circuit, entry.variant, size, n_classes=n_classes, dtype=dtype or entry.dtype, mechanism=mechanism
        )
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def sizes(T: int = 32, L: int = 10) -> list[dict[str, Any]]:
    """The catalogue as rows of plain values, with the smallest d and p at (T, L); d is None where L is too large."""
    _check_task(T, L)
    return [
        {
            "name": entry.name,
            "model": entry.variant,
            "mechanism": entry.mechanism,
            "case": entry.case,
            "d": entry.smallest_d(T, L) if entry.longest >= L else None,
            "p": entry.smallest_p(T, L),
            "proposition": entry.proposition,
            "conditions": entry.conditions,
            "options": dict(entry.options),
            "summary": entry.summary,
        }
        for entry in CATALOGUE.values()
    ]


def _check_task(T: int, L: int) -> None:
    if not 2 <= L <= T:
        raise ValueError(f"a construction needs 2 <= L <= T, got L={L}, T={T}")
