"""Draws what probes and sweeps computed.

A figure function takes a result and returns a `Figure`: a plotly figure with a name, a caption and a table of its
numbers. It computes nothing and writes no file; `interp.pages.export` does. This module draws all figures of one
checkpoint: each probe runs once, and the type of its result selects the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counting_interp.interp.figures.attention import attention_figure, bos_share_figure, cue_conflict_figure
from counting_interp.interp.figures.confusion import confusion_figure
from counting_interp.interp.figures.feed_forward import (
    output_curves_figure,
    simplex_figure,
    step_function_figure,
    sweep_figure,
    sweep_sheet,
)
from counting_interp.interp.figures.verdict import model_plane, verdict_figure
from counting_interp.interp.figures.weights import overlap_figure, readout_figure, spectrum_figure
from counting_interp.interp.verdict.rule import decide
from counting_interp.interp.verdict.verdict import Mechanism
from counting_interp.models.cost import affordable
from counting_interp.probes import catalogue
from counting_interp.probes.accuracy import counting
from counting_interp.probes.attention import Attention
from counting_interp.probes.bos_share import BosShare
from counting_interp.probes.confusion import Confusion
from counting_interp.probes.cue_conflict import CueConflict
from counting_interp.probes.isolation import BosSweep, CountSweep
from counting_interp.probes.output_curves import OutputCurves, StepFunction
from counting_interp.probes.overlap import Overlap
from counting_interp.probes.readout import Readout
from counting_interp.probes.simplex import Simplex
from counting_interp.probes.spectrum import Spectrum
from counting_interp.probes.transplants import Transplants
from counting_interp.util.text import did_you_mean

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from counting_interp.interp.figures.figure import Figure
    from counting_interp.models.protocol import CountingModel
    from counting_interp.probes.result import Result

FIGURES: dict[type[Result], tuple[Callable[[Any], Figure], ...]] = {
    Transplants: (verdict_figure, model_plane),
    CueConflict: (cue_conflict_figure,),
    Attention: (attention_figure,),
    BosShare: (bos_share_figure,),
    Overlap: (overlap_figure,),
    Spectrum: (spectrum_figure,),
    BosSweep: (sweep_figure, sweep_sheet),
    CountSweep: (sweep_figure, sweep_sheet),
    Simplex: (simplex_figure,),
    Readout: (readout_figure,),
    OutputCurves: (output_curves_figure,),
    StepFunction: (step_function_figure,),
    Confusion: (confusion_figure,),
}
SHEETS = {f"{sweep.probe}-sheet": sweep.probe for sweep in (BosSweep, CountSweep)}  # drawn from the sweep's result
SHEETS["plane"] = Transplants.probe
NAMES = (*(result.probe for result in FIGURES), *SHEETS)


@dataclass(frozen=True)
class Settings:
    """What a user may choose: the sequence of the attention figure, and the seed for sampling."""

    sequence: Int[Tensor, "pos"] | None = None
    seed: int = 0


def draw(result: Result) -> Iterator[Figure]:
    """Every figure of one result."""
    for figure in FIGURES[type(result)]:
        yield figure(result)


def figures_of(
    model: CountingModel,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    measured: Sequence[Result] = (),
) -> Iterator[Figure]:
    """Yields the figures that apply to this model; with `only`, those it names.

    Args:
        measured: results computed before; their probes do not run again.

    Raises:
        ValueError: `only` names a figure that does not exist.
    """
    check_names(only)
    config, chosen = model.config, settings or Settings()
    wanted = {SHEETS.get(name, name) for name in only or NAMES}
    missing = wanted - {result.probe for result in measured}
    results = [result for result in measured if result.probe in wanted]
    results += catalogue.measure(model, missing, sequence=chosen.sequence, seed=chosen.seed)
    layers = "" if config.n_layers == 1 else f", {config.n_layers} layers"
    about = f"{config.name}, T = {config.T}, L = {config.L}, d = {config.d}, p = {config.p}{layers}"
    for result, drawing in _drawings(model, results, chosen.seed):
        if not only or re.sub(r"-\d+$", "", drawing.name) in only:
            drawing.about = about
            if config.n_layers > 1 and hasattr(result, "layer"):
                where = f"block {result.layer + 1}"
                drawing.title += f" ({where})"
                drawing.caption = f"{where.capitalize()}. {drawing.caption}"
            if isinstance(result, (Attention, BosShare)) and config.n_heads > 1:
                drawing.title += f", head {result.head} (of 0 to {config.n_heads - 1})"
            yield drawing


def _drawings(model: CountingModel, results: Sequence[Result], seed: int) -> Iterator[tuple[Result, Figure]]:
    """Figures with their results, in the order of `FIGURES`. A read-out goes below the spectrum of its block."""
    last = model.config.n_layers - 1
    spectrum = next((result for result in results if isinstance(result, Spectrum) and result.layer == last), None)
    readout = next((result for result in results if isinstance(result, Readout)), None) if spectrum else None
    for result in sorted(results, key=lambda result: list(FIGURES).index(type(result))):
        if isinstance(result, Transplants):
            yield result, verdict_figure(result, _why_unsolved(model, result, seed))
            yield result, model_plane(result)
        elif result is spectrum and readout:
            yield result, spectrum_figure(spectrum, readout)
        elif result is not readout or readout is None:
            yield from ((result, drawing) for drawing in draw(result))


def _why_unsolved(model: CountingModel, measured: Transplants, seed: int) -> str:
    """The reason that `interp classify` gives for an unsolved model; empty for a solved one."""
    counted = counting(model, n=affordable(model.config, 1000), seed=seed)
    verdict = decide(model, counted, measured)
    return verdict.reason if verdict.mechanism is Mechanism.UNSOLVED else ""


def descriptions() -> dict[str, str]:
    """One line about each figure: the description of its probe."""
    lines = {result.probe: catalogue.find(result.probe).description for result in FIGURES}
    sheets = {sheet: f"The same as `{probe}` for 4 x 4 pairs of tokens." for sheet, probe in SHEETS.items()}
    return lines | sheets | {"plane": "The model and its rows of tokens between RC, IC and gated."}


def check_names(only: Sequence[str]) -> None:
    for name in only:
        if name not in NAMES:
            raise ValueError(f"there is no figure {name!r}; {did_you_mean(name, NAMES)}")
