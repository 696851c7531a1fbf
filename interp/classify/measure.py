"""Running the tests: how well the model counts, whom it follows in a cue conflict, how the count is read out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models import CountingTransformer, task
from models.errors import InterpError
from models.evaluation import affordable, batch_size
from probes.attention import attention
from probes.cue_conflict import CueConflict, cue_conflict
from probes.readout import Readout, readout

PATIENCE = 20  # seconds, about, that the read-out of an unusually large model may take


@dataclass(frozen=True, eq=False)
class Counting:
    """Accuracy, in all and count by count.

    Attributes:
        accuracy: share of positions counted rightly, on fresh sequences of the paper's sampler.
        right, seen: positions counted rightly and positions in all, per count 1..L.
        knows_largest: False if the model cannot have learned count L, which the published sampler never shows.
    """

    accuracy: float
    right: Tensor
    seen: Tensor
    knows_largest: bool

    @property
    def by_count(self) -> Tensor:
        return self.right / self.seen.clamp(min=1)


@dataclass(frozen=True, eq=False)
class Measures:
    """Everything the rule uses: `conflicts` has one entry per block."""

    counting: Counting
    conflicts: tuple[CueConflict, ...]
    readout: Readout
    separation: float | None


def measure(model: CountingTransformer, *, quick: bool, seed: int) -> Measures:
    """All tests on one model. `quick` uses a quarter of the token pairs; models far beyond the paper's sizes get fewer
    sequences, and where not even every token and count can be had, a refusal."""
    n_pairs, repeats, donors = (32, 2, 2) if quick else (128, 4, 8)
    config = model.config
    cells = config.T * config.L
    if cells > PATIENCE * affordable(config, PATIENCE * cells):
        raise InterpError(
            f"a model of T={config.T}, L={config.L}, d={config.d}, p={config.p} would take minutes to classify; "
            "run the probes you need by themselves (interp probe)"
        )
    n_pairs = max(16, min(n_pairs, affordable(config, 10**6) // 45))
    repeats = max(1, min(repeats, PATIENCE * affordable(config, repeats * cells) // cells))
    layers = range(config.n_layers)
    return Measures(
        counting=_counting(model, n=affordable(config, 500 if quick else 1000), seed=seed),
        conflicts=tuple(cue_conflict(model, layer=layer, n_pairs=n_pairs, seed=seed) for layer in layers),
        readout=readout(model, repeats=repeats, donors=donors, seed=seed),
        separation=None
        if config.mixing == "lin"
        else attention(model, n=affordable(config, 128), seed=seed).auc_within,
    )


def _counting(model: CountingTransformer, *, n: int, seed: int) -> Counting:
    L = model.config.L
    tokens = task.sample("paper", n, T=model.config.T, L=L, generator=seed)
    truth = task.histogram(tokens)
    hit = torch.cat([model.predict(part).cpu() for part in tokens.split(batch_size(model.config))]) == truth
    seen = torch.bincount(truth.flatten() - 1, minlength=L).double()
    right = torch.bincount(truth.flatten() - 1, weights=hit.flatten().double(), minlength=L)
    return Counting(float(hit.double().mean()), right, seen, _knows_largest(model))


def _knows_largest(model: CountingTransformer) -> bool:
    """Whether count L was in the training data, as far as the checkpoint says: the published layout and the published
    sampler have no such label."""
    samplers = [model.metadata.get(part, {}).get("sampler") for part in ("training", "task")]
    return "published" not in samplers and model.config.first_count == 1
