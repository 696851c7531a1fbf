"""The probes by name, in the order in which a reader wants them: what each shows, where it makes sense, how to run it.

Nothing heavy is imported until a probe runs, so that the list itself costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counting_interp.models.sizes import Sizes
from counting_interp.probes import work
from counting_interp.probes.applicability import (
    NotApplicable,
    needs_bos_mixture,
    needs_bos_share,
    needs_conflict,
    needs_one_layer,
    needs_published,
    needs_simplex,
    needs_step_function,
    needs_transplants,
    needs_weights,
    nothing,
    refuse,
)

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from counting_interp.models.counter import Counter
    from counting_interp.probes.result import Result

Reason = Callable[[Sizes], "str | None"]


@dataclass(frozen=True)
class Probe:
    """One entry of the catalogue.

    Attributes:
        name: as on the command line.
        description: one line.
        home: `module:function`; the function takes a model and the options, and returns a Result.
        options: which of `sequence`, `layer` and `seed` the function takes.
        together: without a layer, the function looks at all of them at once.
        why_not: why it makes no sense for a configuration, or None where it does.
        work: what it takes.
    """

    name: str
    description: str
    home: str
    options: tuple[str, ...] = ()
    together: bool = False
    why_not: Reason = nothing
    work: work.Estimate = work.little

    def applies_to(self, config: Sizes) -> bool:
        return self.why_not(config) is None

    def too_large(self, config: Sizes) -> str | None:
        """Why it cannot be run on a model of this size, or None where it can."""
        from counting_interp.models.evaluation import too_large

        work = self.work(config)
        reason = too_large(config, work.sequences, work.multiplications, work.numbers)
        return None if reason is None else f"{self.name} {reason}"

    def run(self, model: Counter, **options: Any) -> Result:
        """Run it. An option that is None is left at its default; one that the probe does not take is an error."""
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                takes = f"it takes {', '.join(self.options)}" if self.options else "it takes none"
                raise ValueError(f"the probe {self.name} has no option {name!r}; {takes}")
        refuse(self.why_not(model.config) or self.too_large(model.config))
        module, function = self.home.split(":")
        return getattr(import_module(module), function)(model, **given)


CATALOGUE = (
    Probe(
        name="transplants",
        description="What copies are worth to a listener, transplanted in a 2 x 2: the shares of RC, IC and gated.",
        home="counting_interp.probes.transplants:transplants",
        options=("seed",),
        why_not=needs_transplants,
        work=work.transplants,
    ),
    Probe(
        name="cue-conflict",
        description="Attention compares for t, the self path says s: whose count does the prediction follow?",
        home="counting_interp.probes.cue_conflict:cue_conflict",
        options=("layer", "seed"),
        why_not=needs_conflict,
        work=work.interventions,
    ),
    Probe(
        name="attention",
        description="Scores and pattern of a sequence; do they separate equal from different tokens?",
        home="counting_interp.probes.attention:attention",
        options=("sequence", "layer", "seed"),
        work=work.attention,
    ),
    Probe(
        name="bos-share",
        description="Attention to $ against the true count; does the prediction follow when it is set?",
        home="counting_interp.probes.bos_share:bos_share",
        options=("layer", "seed"),
        why_not=needs_bos_share,
        work=work.bos_share,
    ),
    Probe(
        name="overlap",
        description="Inner products and cosines of embeddings, their coherence against the Welch bound.",
        home="counting_interp.probes.overlap:overlap",
        work=work.overlap,
    ),
    Probe(
        name="spectrum",
        description="Singular values of W1, bare and weighted by the data; the drop at T; what they align with.",
        home="counting_interp.probes.spectrum:spectrum",
        options=("layer", "seed"),
        why_not=needs_weights,
        work=work.spectrum,
    ),
    Probe(
        name="bos-sweep",
        description="The feed-forward layer alone on alpha e_$ + (1 - alpha) e_i + e_j, over pairs of tokens.",
        home="counting_interp.probes.isolation:bos_sweep",
        why_not=needs_bos_mixture,
        work=work.sweep,
    ),
    Probe(
        name="count-sweep",
        description="The feed-forward layer alone between the mixed tokens of count 1 and count L.",
        home="counting_interp.probes.isolation:count_sweep",
        why_not=needs_one_layer,
        work=work.count_sweep,
    ),
    Probe(
        name="simplex",
        description="The feed-forward layer alone on mixtures of three tokens, for each as residual.",
        home="counting_interp.probes.simplex:simplex",
        why_not=needs_simplex,
        work=work.sweep,
    ),
    Probe(
        name="flattening",
        description="The place asks as a stranger, so that attention finds nothing equal: what is left of the count?",
        home="counting_interp.probes.cue_conflict:flattening",
        options=("layer", "seed"),
        together=True,
        why_not=needs_conflict,
        work=work.interventions,
    ),
    Probe(
        name="readout",
        description="How many directions carry the count, and does one token's displacement work for another?",
        home="counting_interp.probes.readout:readout",
        options=("seed",),
        work=work.readout,
    ),
    Probe(
        name="output-curves",
        description="Logits of every count against the number of occurrences, for every filler.",
        home="counting_interp.probes.output_curves:output_curves",
        work=work.output_curves,
    ),
    Probe(
        name="step-function",
        description="Lines and boundaries of a model whose count sits in one hidden unit, as hand-built ones have.",
        home="counting_interp.probes.step_function:step_function",
        why_not=needs_step_function,
        work=work.step_function,
    ),
    Probe(
        name="confusion",
        description="Predicted against true counts, over- and undercounting, and the sequences that fail.",
        home="counting_interp.probes.confusion:confusion",
        options=("seed",),
        work=work.confusion,
    ),
    Probe(
        name="published",
        description="The numbers of the paper's figures beside those of this model (T=32, L=10).",
        home="counting_interp.probes.published:published",
        why_not=needs_published,
    ),
)

BY_NAME = {probe.name: probe for probe in CATALOGUE}


def find(name: str) -> Probe:
    """The probe of that name, or an error that suggests the nearest ones."""
    if name in BY_NAME:
        return BY_NAME[name]
    near = get_close_matches(name, BY_NAME, n=3, cutoff=0.4) or list(BY_NAME)
    raise ValueError(f"there is no probe {name!r}; did you mean {', '.join(near)}?")


def applicable(config: Sizes) -> tuple[Probe, ...]:
    """The probes that make sense for this configuration."""
    return tuple(probe for probe in CATALOGUE if probe.applies_to(config))


def measure(
    model: Counter, names: Collection[str], *, sequence: Int[Tensor, "pos"] | None = None, seed: int = 0
) -> Iterator[Result]:
    """The named probes on this model, each on every layer if it looks at one, and on several together if it can; those
    that make no sense are left out."""
    settings = {"sequence": sequence, "seed": seed}
    every = range(model.config.n_layers)
    for probe in applicable(model.config):
        if probe.name in names:
            given = {name: value for name, value in settings.items() if name in probe.options}
            together = probe.together and len(every) > 1
            layers = [*[None] * together, *every] if "layer" in probe.options else [None]
            for layer in layers:
                with suppress(NotApplicable):  # some probes can only say so after a look at the weights
                    yield probe.run(model, layer=layer, **given)
