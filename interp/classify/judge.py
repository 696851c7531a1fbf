"""`classify`: measure, rule, explain."""

from __future__ import annotations

import torch

from interp.classify.capacity import allows
from interp.classify.evidence import against, evidence
from interp.classify.measure import measure
from interp.classify.rule import rule
from interp.classify.verdict import Verdict
from models import CountingTransformer
from models.config import CountingConfig


@torch.no_grad()
def classify(model: CountingTransformer, quick: bool = False, seed: int = 0) -> Verdict:
    """How does this model count?

    Args:
        model: any counting model with L >= 3, from a checkpoint, a construction or by hand.
        quick: a quarter of the sequences; wider intervals.
        seed: of the sequences and the bootstrap. The same seed gives the same verdict, to the last digit.
    """
    measures = measure(model, quick=quick, seed=seed)
    ruling = rule(measures, seed=seed)
    return Verdict(
        label=ruling.label,
        scores=ruling.scores,
        intervals=ruling.intervals,
        confidence=ruling.confidence,
        accuracy=measures.counting.accuracy,
        axes={"comparison": ruling.comparison, "readout": ruling.readout},
        evidence=evidence(measures, ruling),
        against=against(measures, ruling),
        allows=allows(model.config),
        model=describe(model.config),
        measures={
            "follows_t": ruling.follows[0],
            "follows_s": ruling.follows[1],
            "unswapped_follows_t": measures.conflicts[0].unswapped_slope,
            "surviving_pairs": ruling.surviving,
            "transfer": ruling.transfer,
            "directions": measures.readout.directions,
            "accuracy_by_count_min": float(measures.counting.by_count.min()),
            "layer": ruling.layer,
        },
    )


def describe(config: CountingConfig) -> str:
    layers = "" if config.n_layers == 1 else f", {config.n_layers} layers"
    return f"{config.name}, T={config.T}, L={config.L}, d={config.d}, p={config.p}{layers}"
