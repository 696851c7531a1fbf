"""Running the tests: how well the model counts, what is left without its comparison, whom it follows when attention and
self path name different tokens, and how the count is read out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.cost import MULTIPLICATIONS, affordable, batch_size
from counting_interp.models.counter import Counter
from counting_interp.probes.catalogue import metric_work
from counting_interp.probes.cue_conflict import CueConflict, Flattening, flattening, interventions
from counting_interp.probes.readout import Readout, readout
from counting_interp.probes.result import Result
from counting_interp.util.errors import InterpError

PATIENCE = 8  # seconds, about, that the read-out of an unusually large model may take


@dataclass(frozen=True, eq=False)
class Counting:
    """Accuracy on fresh sequences of one sampler, in all and count by count.

    Attributes:
        sampler: the one the model was trained on, if it says so, else the one it counts best on.
        shares: of each sequence, the share of positions counted rightly.
        right, seen: positions counted rightly and positions in all, per count 1..L.
    """

    sampler: str
    shares: Float[Tensor, "sequence"]
    right: Float[Tensor, "count"]
    seen: Float[Tensor, "count"]

    @property
    def accuracy(self) -> float:
        return float(self.right.sum() / self.seen.sum())

    @property
    def by_count(self) -> list[float | None]:
        """Accuracy at each count; None where the sampler showed none."""
        pairs = zip(self.right.tolist(), self.seen.tolist(), strict=True)
        return [right / seen if seen else None for right, seen in pairs]


@dataclass(frozen=True, eq=False)
class Measures:
    """Everything the rule uses: `conflicts` and `flattenings` have one entry per block; `flattened` is every block at
    once."""

    counting: Counting
    conflicts: tuple[CueConflict, ...]
    flattenings: tuple[Flattening, ...]
    flattened: Flattening
    readout: Readout

    @property
    def results(self) -> tuple[Result, ...]:
        """The probes' results, to be drawn or shown beside the verdict without measuring again."""
        together = (self.flattened,) if len(self.flattenings) > 1 else ()
        return (*together, *self.flattenings, *self.conflicts, self.readout)


def measure(model: Counter, *, quick: bool, seed: int) -> Measures:
    """All tests on one model. `quick` uses half of the token pairs; models far beyond the paper's sizes get fewer
    sequences, and where not even every token and count can be had, a refusal."""
    n_pairs, repeats, donors = (32, 2, 2) if quick else (64, 4, 8)
    config = model.config
    cells = config.T * config.L
    if cells > PATIENCE * affordable(config, PATIENCE * cells) or metric_work(config) > PATIENCE * MULTIPLICATIONS:
        raise InterpError(
            f"a model of T={config.T}, L={config.L}, d={config.d}, p={config.p} would take minutes to classify; "
            "run the probes you need by themselves (interp probe)"
        )
    n_pairs = max(16, min(n_pairs, affordable(config, 10**6) // 45))
    repeats = max(1, min(repeats, PATIENCE * affordable(config, repeats * cells) // cells))
    both = [interventions(model, layer=layer, n_pairs=n_pairs, seed=seed) for layer in range(config.n_layers)]
    return Measures(
        counting=_counting(model, n=affordable(config, 500 if quick else 1000), seed=seed),
        conflicts=tuple(conflict for conflict, _ in both),
        flattenings=tuple(flattened for _, flattened in both),
        flattened=both[0][1] if len(both) == 1 else flattening(model, layer=None, n_pairs=n_pairs, seed=seed),
        readout=readout(model, repeats=repeats, donors=donors, seed=seed),
    )


def _counting(model: Counter, *, n: int, seed: int) -> Counting:
    """On the distribution that the model was trained on; where it does not say, on the one that it counts best on."""
    told = trained_on(model)
    tried = [_counting_on(model, sampler, n, seed) for sampler in ([told] if told else ["paper", "published"])]
    return max(tried, key=lambda counting: counting.accuracy)


def _counting_on(model: Counter, sampler: str, n: int, seed: int) -> Counting:
    L = model.config.L
    tokens = task.sample(sampler, n, T=model.config.T, L=L, generator=seed)
    truth = model.truth(tokens)
    hit = torch.cat([model.predict(part).cpu() for part in tokens.split(batch_size(model.config))]) == truth
    seen = torch.bincount(truth.flatten() - 1, minlength=L).double()
    right = torch.bincount(truth.flatten() - 1, weights=hit.flatten().double(), minlength=L)
    return Counting(sampler, hit.double().mean(1), right, seen)


def trained_on(model: Counter) -> str | None:
    """The sampler of the training data, as far as the checkpoint says."""
    samplers = [model.metadata.get(part, {}).get("sampler") for part in ("training", "task")]
    return next((str(sampler) for sampler in samplers if sampler in task.SAMPLERS), None)
