"""The one function that others call."""

from __future__ import annotations

from collections.abc import Callable

from models.certify.one_layer import OneLayerProof
from models.certify.results import Certificate, Counterexample, Undecided
from models.certify.two_layers import TwoLayerProof
from models.transformer import CountingTransformer


def certify(
    model: CountingTransformer,
    seconds: float | int = 60,
    progress: Callable[[str, float], None] | None = None,
    max_count: int | None = None,
) -> Certificate | Counterexample | Undecided:
    """Decide whether `model` gives the true count, by a strict argmax over all its classes, on every sequence.

    Args:
        model: one or two layers, any variant, trained or constructed.
        seconds: time after which an undecided verification gives up.
        progress: called with the stage's name and the share of it that is done.
        max_count: ask only about positions whose true count is at most this; L (every position) by default. Models
            trained with the published sampler never saw count L.
    """
    L = model.config.L
    counts = L if max_count is None else max_count
    if not 1 <= counts <= L:
        raise ValueError(f"max_count must be between 1 and L={L}, got {max_count}")
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    report = progress or (lambda stage, share: None)
    if model.config.n_layers == 2:
        return TwoLayerProof(model, counts, seconds, report).outcome()
    return OneLayerProof(model, counts, seconds, report).outcome()
