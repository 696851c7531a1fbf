"""How often a model is right, with intervals that hold at any sample size.

Positions of one sequence are not independent: equal tokens are right or wrong together. So the unit is the sequence.

- *Sequences right as a whole* are independent yes or no answers. The interval is Clopper and Pearson's, which is exact.
- *Positions right* is the mean over sequences of a share between 0 and 1. Its interval inverts Hoeffding's bound in its
  Kullback-Leibler form: P(mean is as far from mu) <= exp(-n KL(mean, mu)) on either side. It holds for any distribution
  on [0, 1]. Where everything is right it equals Clopper and Pearson's; elsewhere it is wider, so at least 95 % hold.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.cost import affordable, batch_size, share_right
from counting_interp.models.protocol import CountingModel

if TYPE_CHECKING:
    from counting_interp.models import CountingTransformer

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on `n_sequences` fresh sequences.

    Attributes:
        value: share of positions that are right.
        sequences: share of sequences that are right at every position.
    """

    sampler: str
    n_sequences: int
    value: float
    interval: tuple[float, float]
    sequences: float
    sequences_interval: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(model: CountingTransformer, sampler: str = "paper", *, n: int = 3000, seed: int = 0) -> Accuracy:
    """Accuracy on `n` fresh sequences, or on fewer where the model is far beyond the paper's sizes."""
    n = affordable(model.config, n)
    shares = share_right(model, task.sample(sampler, n, T=model.config.T, L=model.config.L, generator=seed))
    whole = int((shares == 1).sum())
    mean = 1.0 if whole == n else float(shares.mean())
    return Accuracy(sampler, n, mean, mean_interval(mean, n), whole / n, proportion_interval(whole, n))


@dataclass(frozen=True, eq=False)
class Counting:
    """Accuracy on fresh sequences of one sampler, overall and by true count.

    Attributes:
        sampler: the training sampler if the model's metadata name it, else the one with the best accuracy.
        right, seen: number of correct positions and of all positions, for each true count 1..L.
    """

    sampler: str
    right: Float[Tensor, "count"]
    seen: Float[Tensor, "count"]

    @property
    def accuracy(self) -> float:
        return float(self.right.sum() / self.seen.sum())

    @property
    def by_count(self) -> list[float | None]:
        """Accuracy at each true count; None where the sampler drew no such count."""
        pairs = zip(self.right.tolist(), self.seen.tolist(), strict=True)
        return [right / seen if seen else None for right, seen in pairs]


def counting(model: CountingModel, *, n: int, seed: int) -> Counting:
    """Accuracy on the training sampler if the metadata name it, else on the sampler with the best accuracy."""
    known = trained_on(model)
    samplers = [known] if known else ["paper", "published"]
    return max((_counting_on(model, sampler, n, seed) for sampler in samplers), key=lambda counted: counted.accuracy)


def _counting_on(model: CountingModel, sampler: str, n: int, seed: int) -> Counting:
    L = model.config.L
    tokens = task.sample(sampler, n, T=model.config.T, L=L, generator=seed)
    truth = model.truth(tokens)
    hit = torch.cat([model.predict(batch).cpu() for batch in tokens.split(batch_size(model.config))]) == truth
    seen = torch.bincount(truth.flatten() - 1, minlength=L).double()
    right = torch.bincount(truth.flatten() - 1, weights=hit.flatten().double(), minlength=L)
    return Counting(sampler, right, seen)


def trained_on(model: CountingModel) -> str | None:
    """The sampler of the training data; None if the checkpoint's metadata do not name one."""
    samplers = [model.metadata.get(section, {}).get("sampler") for section in ("training", "task")]
    return next((str(sampler) for sampler in samplers if sampler in task.SAMPLERS), None)


def proportion_interval(successes: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a probability."""
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1 - tail))
    return low, high


def mean_interval(mean: float, n: int) -> tuple[float, float]:
    """The 95 % interval of the mean of a quantity between 0 and 1, from the mean of `n` independent samples."""
    limit = math.log(2 / (1 - CONFIDENCE)) / n
    return _farthest(mean, 0.0, limit), _farthest(mean, 1.0, limit)


def _farthest(mean: float, end: float, limit: float) -> float:
    """The mu between `mean` and `end` where KL(mean, mu) reaches `limit`, by bisection, rounded outwards."""
    inside, outside = mean, end
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _kl(mean, middle) <= limit else (inside, middle)
    return outside


def _kl(p: float, q: float) -> float:
    """Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q)."""
    terms = ((p, q), (1 - p, 1 - q))
    return sum(a * math.log(a / b) if b else math.inf for a, b in terms if a)
