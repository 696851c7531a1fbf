"""The one function that others call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counting_interp.interp.proof.arithmetic import OUTSIDE
from counting_interp.interp.proof.cells import compile_kernels
from counting_interp.interp.proof.claim import claim
from counting_interp.interp.proof.enumerate import Enumeration
from counting_interp.interp.proof.one_layer import OUT_OF_RANGE, OneLayerProver
from counting_interp.interp.proof.outcome import Certificate, Counterexample, Undecided
from counting_interp.models.config import CountingConfig
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.applicability import needs_paper_block, refuse
from counting_interp.util.errors import InterpError

MAX_CELLS = 500_000  # beyond, even one look at each takes too long


def prove(
    model: CountingTransformer,
    seconds: float | int = 60,
    progress: Callable[[str, float], None] | None = None,
    max_count: int | None = None,
    as_stored: bool = False,
) -> Certificate | Counterexample | Undecided:
    """Decide whether `model` gives the true count, by a strict argmax over all its classes, on every sequence.

    Args:
        model: one or two layers, any of the paper's variants, trained or constructed; NotApplicable for other blocks.
        seconds: time after which an undecided verification gives up.
        progress: called with the stage's name and the share of it that is done.
        max_count: ask only about positions whose true count is at most this; by default what `claim` says: L (every
            position), or L - 1 for models whose training never showed count L.
        as_stored: prove it in the dtype of the weights or not at all. By default, cells whose margins are too small for
            that are proved in float64 instead, and `Certificate.precision` says so.
    """
    refuse(needs_paper_block(model.config))
    L = model.config.L
    counts = claim(model, max_count).counts
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    if (cells := _cells(model.config, counts)) > MAX_CELLS:
        raise InterpError(
            f"a model of T={model.config.T} and L={L} has {cells:,} pairs of position and count to decide, more than "
            f"the {MAX_CELLS:,} that can be looked at one by one; max_count (--max-count) asks about fewer"
        )
    report = progress or (lambda stage, share: None)
    with np.errstate(all="ignore"):  # what overflows is never called proved
        if model.config.n_layers == 2:
            return Enumeration(model, counts, seconds, report, as_stored).outcome()
        report("compiling", 0.0)
        compile_kernels()
        outcome = OneLayerProver(model, counts, seconds, report, as_stored).outcome()
        if isinstance(outcome, Undecided) and outcome.reason.startswith((OUT_OF_RANGE, OUTSIDE)):
            by_running = Enumeration(model, counts, seconds, report).outcome()
            return by_running if isinstance(by_running, Counterexample) else outcome
        return outcome


def _cells(config: CountingConfig, counts: int) -> int:
    return counts * config.T * (config.L if config.mixing == "lin" else 1)
