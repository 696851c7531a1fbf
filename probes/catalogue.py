"""The probes by name: what each shows, which models it applies to, what it costs and how to run it.

A valid file of 40 kB may hold a model on which some probes would run for days. So each probe states its cost before it
begins. Its module is imported only when it runs, so listing the probes is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counting_interp.models.protocol import ModelSpec
from counting_interp.probes.applicability import (
    NotApplicable,
    Reason,
    needs_bos,
    needs_conflict,
    needs_embedding_mixture,
    needs_one_layer,
    needs_published,
    needs_relu,
    needs_softmax,
    needs_three_tokens,
    needs_transplants,
    needs_weights,
    refuse,
)
from counting_interp.util.errors import MissingPoint
from counting_interp.util.text import did_you_mean

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from counting_interp.models.protocol import CountingModel
    from counting_interp.probes.result import Result


MAX_LEVELS = 9  # different counts of each token in an intervention; all of 1..L-1 up to the paper's L = 10


@dataclass(frozen=True)
class Work:
    """The cost of a probe at its default settings.

    Attributes:
        sequences: how many run through the model.
        multiplications: done outside of the model.
        numbers: held in memory outside of the model.
    """

    sequences: int = 0
    multiplications: int = 0
    numbers: int = 0


Estimate = Callable[[ModelSpec], Work]
SVD = 20  # cost of a decomposition, relative to a matrix product of the same size
POINTS = 25_600  # mixtures of a sweep: 16 x 16 pairs of tokens, 100 steps


def intervention_work(config: ModelSpec) -> Work:
    """64 pairs of tokens, up to 45 pairs of counts. Each runs three times: donor, unchanged and swapped."""
    levels = min(config.L - 1, MAX_LEVELS)
    sequences = 64 * levels * (levels + 1) // 2
    return Work(3 * sequences, numbers=8 * sequences * (config.L + config.T))


def transplants_work(config: ModelSpec) -> Work:
    """64 rows. Each runs six roles for every count, then four transplants for every move in every block."""
    counts, moves = min(config.L, 4 * MAX_LEVELS), 6 * min(config.L, MAX_LEVELS + 3)
    sequences = 64 * (6 * counts + (4 * moves if config.n_layers > 1 else 0) * config.n_layers)
    return Work(sequences, numbers=8 * 64 * 6 * counts * config.L + 8 * 64 * moves * config.d)


def every_count_work(config: ModelSpec) -> Work:
    """Four sequences for every token and count."""
    return Work(4 * config.T * config.L, numbers=16 * config.T * config.L**2)


def bos_share_work(config: ModelSpec) -> Work:
    """Every (token, count), then 256 sequences with the share set to that of each count."""
    base = every_count_work(config)
    return Work(base.sequences + 256 * config.L, numbers=base.numbers + 512 * config.L**2)


def readout_work(config: ModelSpec) -> Work:
    """Every (token, count), predictions for nine displacements per token and pair of counts, and one eigendecomposition
    over the hidden units."""
    base, predictions = every_count_work(config), 9 * config.T * config.L**2
    return Work(
        base.sequences,
        predictions * config.p * config.classes + 6 * config.p**3,
        base.numbers + 8 * base.sequences * config.p + 16 * config.p**2,
    )


def spectrum_work(config: ModelSpec) -> Work:
    """Singular values of the weights, of the tokens' states and of the pre-activations."""
    T, d, p = config.T, config.d, config.p
    return Work(multiplications=SVD * (d * p * min(d, p) + T * d * min(T, d) + 512 * 10 * p * p))


def sweep_work(config: ModelSpec) -> Work:
    """The mixtures and the ends of their lines; the logits of each mixture, and which of L boundaries it has passed."""
    return Work(2 * 16**2 + POINTS // config.L, numbers=16 * POINTS * config.L)


def table_work(size: int) -> Work:
    """A table with a row for every pair of positions or of counts."""
    return Work(multiplications=500_000 * size**2, numbers=200 * size**2)


TRANSPLANTS = "counting_interp.probes.transplants:transplants"


@dataclass(frozen=True)
class Probe:
    """One entry of the catalogue.

    Attributes:
        name: its name on the command line.
        description: one line.
        home: `module:function`. The function takes a model and the options, and returns a Result.
        options: which of `sequence`, `layer`, `head` and `seed` the function takes.
        needs: requirements on the configuration. Each returns the reason why it is not met, or None.
        work: its cost.
    """

    name: str
    description: str
    home: str
    options: tuple[str, ...] = ()
    needs: tuple[Reason, ...] = ()
    work: Estimate = lambda config: Work()  # the probe itself limits its sequences to what it can afford

    def why_not(self, config: ModelSpec) -> str | None:
        """Why the probe does not apply to a configuration; None where it does."""
        if self.home != TRANSPLANTS and getattr(config, "asks", False):
            return f"{config.name} answers once, to a question; this reads answers at every position: run transplants"
        return next((reason for need in self.needs if (reason := need(config))), None)

    def applies_to(self, config: ModelSpec) -> bool:
        return self.why_not(config) is None

    def too_large(self, config: ModelSpec) -> str | None:
        """Why the probe is too expensive for a model of this size; None where it is not."""
        from counting_interp.models.cost import too_large

        work = self.work(config)
        reason = too_large(config, work.sequences, work.multiplications, work.numbers)
        return None if reason is None else f"{self.name} {reason}"

    def run(self, model: CountingModel, **options: Any) -> Result:
        """Run the probe. Options that are None keep their default.

        Raises:
            ValueError: for an option that the probe does not take.
            NotApplicable: where the probe does not apply to the model, or is too expensive for it.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                takes = f"it takes {', '.join(self.options)}" if self.options else "it takes none"
                raise ValueError(f"the probe {self.name} has no option {name!r}; {takes}")
        refuse(self.why_not(model.config) or self.too_large(model.config))
        module, function = self.home.split(":")
        try:
            return getattr(import_module(module), function)(model, **given)
        except MissingPoint as missing:
            raise NotApplicable(str(missing)) from missing


CATALOGUE = (
    Probe(
        name="transplants",
        description="What copies are worth to a listener, transplanted in a 2 x 2: the shares of RC, IC and gated.",
        home=TRANSPLANTS,
        options=("seed",),
        needs=(needs_transplants,),
        work=transplants_work,
    ),
    Probe(
        name="cue-conflict",
        description="Attention compares for t, the residual path says s: whose count does the prediction follow?",
        home="counting_interp.probes.cue_conflict:cue_conflict",
        options=("layer", "seed"),
        needs=(needs_conflict,),
        work=intervention_work,
    ),
    Probe(
        name="attention",
        description="Scores and pattern of a sequence; do they separate equal from different tokens?",
        home="counting_interp.probes.attention:attention",
        options=("sequence", "layer", "head", "seed"),
        work=lambda config: table_work(config.n_positions),
    ),
    Probe(
        name="bos-share",
        description="Attention to $ against the true count; does the prediction follow when it is set?",
        home="counting_interp.probes.bos_share:bos_share",
        options=("layer", "head", "seed"),
        needs=(needs_bos,),
        work=bos_share_work,
    ),
    Probe(
        name="overlap",
        description="Inner products and cosines of embeddings, their coherence against the Welch bound.",
        home="counting_interp.probes.overlap:overlap",
        work=lambda config: Work(numbers=16 * (config.T + config.prefix) ** 2),
    ),
    Probe(
        name="spectrum",
        description="Singular values of W1, bare and weighted by the data; the drop at T; what they align with.",
        home="counting_interp.probes.spectrum:spectrum",
        options=("layer", "seed"),
        needs=(needs_weights,),
        work=spectrum_work,
    ),
    Probe(
        name="bos-sweep",
        description="The feed-forward layer alone on alpha e_$ + (1 - alpha) e_i + e_j, over pairs of tokens.",
        home="counting_interp.probes.isolation:bos_sweep",
        needs=(needs_bos, needs_softmax, needs_one_layer, needs_embedding_mixture),
        work=sweep_work,
    ),
    Probe(
        name="count-sweep",
        description="The feed-forward layer alone between the mixed tokens of count 1 and count L.",
        home="counting_interp.probes.isolation:count_sweep",
        needs=(needs_one_layer,),
        work=sweep_work,
    ),
    Probe(
        name="simplex",
        description="The feed-forward layer alone on mixtures of three tokens, for each as residual.",
        home="counting_interp.probes.simplex:simplex",
        needs=(needs_softmax, needs_one_layer, needs_embedding_mixture, needs_three_tokens),
        work=sweep_work,
    ),
    Probe(
        name="readout",
        description="How many directions carry the count, and does one token's displacement work for another?",
        home="counting_interp.probes.readout:readout",
        options=("seed",),
        work=readout_work,
    ),
    Probe(
        name="output-curves",
        description="Logits of every count against the number of occurrences, for every filler.",
        home="counting_interp.probes.output_curves:output_curves",
        work=lambda config: Work(config.T * config.L, numbers=4 * config.T * config.L * config.classes),
    ),
    Probe(
        name="step-function",
        description="Lines and boundaries of a model whose count sits in one hidden unit, as hand-built ones have.",
        home="counting_interp.probes.output_curves:step_function",
        needs=(needs_weights, needs_one_layer, needs_relu),
        work=lambda config: Work(config.L, multiplications=10**8 * config.L),
    ),
    Probe(
        name="confusion",
        description="Predicted against true counts, over- and undercounting, and the sequences that fail.",
        home="counting_interp.probes.confusion:confusion",
        options=("seed",),
        work=lambda config: table_work(config.L),
    ),
    Probe(
        name="published",
        description="The numbers of the paper's figures beside those of this model (T=32, L=10).",
        home="counting_interp.probes.published:published",
        needs=(needs_published,),
    ),
)

BY_NAME = {probe.name: probe for probe in CATALOGUE}


def find(name: str) -> Probe:
    """The probe of that name.

    Raises:
        ValueError: if there is none; the message suggests the nearest names.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    raise ValueError(f"there is no probe {name!r}; {did_you_mean(name, BY_NAME)}")


def check(name: str, config: ModelSpec) -> None:
    """Raise NotApplicable where the requirements of the probe of that name are not met."""
    refuse(BY_NAME[name].why_not(config))


def applicable(config: ModelSpec) -> tuple[Probe, ...]:
    """The probes that apply to this configuration."""
    return tuple(probe for probe in CATALOGUE if probe.applies_to(config))


def measure(
    model: CountingModel, names: Collection[str], *, sequence: Int[Tensor, "pos"] | None = None, seed: int = 0
) -> Iterator[Result]:
    """Run the named probes that apply to this model. A probe with the option `layer` runs on every layer."""
    settings = {"sequence": sequence, "seed": seed}
    every = range(model.config.n_layers)
    for probe in applicable(model.config):
        if probe.name in names:
            given = {name: value for name, value in settings.items() if name in probe.options}
            for layer in every if "layer" in probe.options else [None]:
                with suppress(NotApplicable):  # some probes find out only when they read the weights
                    yield probe.run(model, layer=layer, **given)
