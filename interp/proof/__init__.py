"""Proof instead of sampling: is a counting model right on every sequence?

    >>> from counting_interp.interp.proof import prove
    >>> prove(model)          # Certificate | Counterexample | Undecided

`reduction` brings a one-layer model into a form in which the pre-activations are sums over the other positions.
`cells` splits its sequences into (token, count) cells. `bounds` and `branch` prove a cell, `search` tries to refute it,
`enumeration` goes through all multisets where they are few. `rounding` says what floating point may add. `one_layer`
runs these stages. `enumerate` does what can be done for two layers, with `running` for its rounding errors. `state`
keeps the score, `claim` says what is asked and `arithmetic` in which numbers, `outcome` has the three answers,
`document` writes a proof down, and `checker` checks it. docs/certificates.md tells it in order.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counting_interp.interp.proof.outcome import (
        Certificate,
        Counterexample,
        CountMargin,
        ProofOutcome,
        ProvedCell,
        Undecided,
        UnprovedCell,
    )
    from counting_interp.interp.proof.run import prove

__all__ = [
    "Certificate",
    "CountMargin",
    "Counterexample",
    "ProofOutcome",
    "ProvedCell",
    "Undecided",
    "UnprovedCell",
    "prove",
]


def __getattr__(name: str) -> Any:  # lazy: the checker below this package must load nothing but Python
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'run' if name == 'prove' else 'outcome'}"), name)
