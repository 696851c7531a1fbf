"""`classify`: measure, then rule."""

from __future__ import annotations

import torch

from counting_interp.interp.verdict.measure import measure
from counting_interp.interp.verdict.rule import rule
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.models.counter import Counter


@torch.no_grad()
def classify(model: Counter, quick: bool = False, seed: int = 0) -> Verdict:
    """How does this model count?

    Args:
        model: any counting model with L >= 3, from a checkpoint, a construction or by hand; others in an Adapter.
        quick: half of the sequences; wider intervals.
        seed: of the sequences and the bootstrap. The same seed gives the same verdict, to the last digit.
    """
    measures = measure(model, quick=quick, seed=seed)
    return Verdict(model.config, measures, rule(measures, seed=seed))
