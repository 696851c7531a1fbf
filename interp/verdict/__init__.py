"""How a model counts: three shares, measured by a 2 x 2 of transplants, and a label that is their short name.

    >>> from counting_interp.interp.verdict import classify
    >>> classify(CountingTransformer.load("ckpt.pt"))
    <RC: shares RC 0.95 [0.93, 0.97], IC 0.00 [0.00, 0.00], gated 0.05 [0.03, 0.07]; 100 % right>

`probes.transplants` measures and `rule` decides. `verdict` has the types and the text. `files` classifies checkpoints
and the snapshots of a run. The page docs/verdict.md says what is measured, what is proved and what the limits are.
"""

from __future__ import annotations

from counting_interp.interp.verdict.rule import classify
from counting_interp.interp.verdict.verdict import Mechanism, Verdict

__all__ = ["Mechanism", "Verdict", "classify"]
