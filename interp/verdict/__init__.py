"""The verdict: relation-based, inventory-based, mixed or unsolved, with the evidence.

    >>> from counting_interp.interp.verdict import classify
    >>> classify(CountingTransformer.load("ckpt.pt")).label
    'RC'

`measure` runs the tests, `rule` turns their numbers into a label, `evidence` into sentences, `capacity` adds what the
architecture would allow; a `Verdict` holds measures and ruling, and shows them. `files` and `formation` are for many
checkpoints. docs/verdict.md has the rule in words, its thresholds and its limits.
"""

from __future__ import annotations

from counting_interp.interp.verdict.judge import classify
from counting_interp.interp.verdict.verdict import Verdict

__all__ = ["Verdict", "classify"]
