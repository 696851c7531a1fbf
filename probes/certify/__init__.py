"""Proof instead of sampling: is a counting model right on every sequence?

    >>> from counting_interp.probes.certify import certify
    >>> certify(model)          # Certificate | Counterexample | Undecided

`reduction` brings a one-layer model into a form in which the pre-activations are sums over the other places; `cells`
splits its sequences into (token, count) cells; `corners` and `branch` prove a cell, `search` tries to refute it,
`enumeration` goes through all multisets where they are few; `rounding` says what floating point may add; `one_layer`
runs these stages. `by_running` does what can be done for two layers, with `running` for its rounding errors. `board`
keeps the score, `results` are the three answers, `witness` writes a proof down, for `interp.checker` to check.
docs/certificates.md tells it in order.
"""

from counting_interp.probes.certify.results import (
    Certificate,
    CertifyOutcome,
    Counterexample,
    CountMargin,
    ProvedCell,
    Undecided,
    UnprovedCell,
)
from counting_interp.probes.certify.run import certify

__all__ = [
    "Certificate",
    "CertifyOutcome",
    "CountMargin",
    "Counterexample",
    "ProvedCell",
    "Undecided",
    "UnprovedCell",
    "certify",
]
