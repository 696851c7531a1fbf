"""Proof instead of sampling: is a counting model right on every sequence?

    >>> from counting_interp.interp.proof import prove
    >>> prove(model)          # Certificate | Counterexample | Undecided

`prover` runs the stages of a proof. `reduction` brings a one-layer model into a form in which the pre-activations are
sums over the other positions. `cells` splits its sequences into (token, count) cells and searches or enumerates each;
`branch` proves one. `enumerate` runs every sequence of a two-layer model. `rounding` bounds what floating point adds.
`state` records what these find, and `outcome` has the three answers. `transplants` proves what transplants of the
verdict do. `document` writes a proof as JSON, and `checker` checks it. docs/proofs.md explains the mathematics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counting_interp.interp.proof.outcome import Certificate, Counterexample, ProofOutcome, Undecided
    from counting_interp.interp.proof.prover import prove

__all__ = ["Certificate", "Counterexample", "ProofOutcome", "Undecided", "prove"]


def __getattr__(name: str) -> Any:  # lazy: the checker below this package must load nothing but Python
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'prover' if name == 'prove' else 'outcome'}"), name)
