"""Which reading of a bare state_dict is right? The one that counts: try each on fresh sequences.

Both samplers are tried, since a model trained by the published code has never seen a count of L. A reading's score is
its accuracy under the sampler that suits it, measured from the best constant answer (0) to perfection (1).
"""

from __future__ import annotations

from dataclasses import dataclass

from counting_interp.models import task
from counting_interp.models.checkpoint.bare import Candidate, describe
from counting_interp.models.config import CountingConfig
from counting_interp.models.evaluation import affordable, share_right
from counting_interp.models.transformer import CountingTransformer

SEQUENCES = 1000
COUNTS = 0.95  # accuracy of a reading as one of the paper's blocks that makes others superfluous
SURE, LIKELY = 6.0, 3.0  # standard errors between the best reading and the next


@dataclass(frozen=True)
class Trial:
    """How well one reading counts.

    Attributes:
        score: 0 for the best constant answer, 1 for perfection.
        error: its standard error; sequences are the independent units.
    """

    config: CountingConfig
    sampler: str
    sequences: int
    accuracy: float
    score: float
    error: float

    def __str__(self) -> str:
        return f"{describe(self.config)} with {self.accuracy:.1%}"


def most_plausible(candidates: list[Candidate]) -> tuple[CountingTransformer, list[str]]:
    """The model that counts best, and one sentence on how sure that is. Nothing is tried where nothing is open."""
    if len(candidates) == 1:
        return _model(candidates[0]), []
    trials: list[Trial] = []
    for candidate in sorted(candidates, key=lambda one: bool(one.config.extras)):  # one at a time: they may be large
        if candidate.config.extras and any(not t.config.extras and t.accuracy >= COUNTS for t in trials):
            continue  # nothing in the file speaks of GELU or a causal block, and without them it counts
        model = _model(candidate)
        trials.append(max((_trial(model, sampler) for sampler in ("published", "paper")), key=lambda t: t.score))
    ranked = sorted(range(len(trials)), key=lambda i: -trials[i].score)
    if _level(trials[ranked[0]], trials[ranked[1]]):
        ranked[:2] = sorted(ranked[:2], key=lambda i: (-trials[i].config.T, -trials[i].config.L))
    elif _plainer(trials[ranked[1]], trials[ranked[0]]):
        ranked[:2] = reversed(ranked[:2])
    best, second = trials[ranked[0]], trials[ranked[1]]
    chosen = next(one for one in candidates if one.config == best.config)
    return _model(chosen), [
        f"{describe(best.config)}, because read so it counts {best.accuracy:.1%} of positions rightly in "
        f"{best.sequences:,} fresh sequences ({best.sampler} sampler); next best: {second}; {_how_sure(best, second)}"
    ]


def _gap(best: Trial, second: Trial) -> float:
    return (best.score - second.score) / (best.error**2 + second.error**2) ** 0.5


def _level(best: Trial, second: Trial) -> bool:
    """Both count equally well, and one counts more: one token, or one place of the sequence."""
    rest = [(trial.config.softmax, trial.config.n_layers, trial.config.extras) for trial in (best, second)]
    return _gap(best, second) < LIKELY and rest[0] == rest[1]


def _plainer(one: Trial, other: Trial) -> bool:
    """Both count equally well, and one has less that only a name would tell: GELU, or a causal block."""
    return abs(_gap(one, other)) < LIKELY and len(one.config.extras) < len(other.config.extras)


def _how_sure(best: Trial, second: Trial) -> str:
    if best.score < SURE * best.error:
        return "no more than a guess, as no reading counts better than a constant answer would"
    if _level(best, second):
        return "likely: read in this way it counts as well, and with more tokens or in longer sequences"
    if _plainer(best, second):
        return "likely: the other reading counts as well, but has more than the file shows"
    if _gap(best, second) < LIKELY:
        return "no more than a guess between the two"
    return "sure" if _gap(best, second) >= SURE else "likely"


def _model(candidate: Candidate) -> CountingTransformer:
    return CountingTransformer(candidate.config, candidate.weights)


def _trial(model: CountingTransformer, sampler: str) -> Trial:
    T, L = model.config.T, model.config.L
    n = affordable(model.config, SEQUENCES)
    right = share_right(model, task.sample(sampler, n, T=T, L=L, generator=0))
    constant = float(task.label_distribution(sampler, T=T, L=L, causal=model.config.causal).max())
    scale = max(1 - constant, 1 / L)
    spread = float((right.var() + 1 / n) / n) ** 0.5  # never zero, even where all are right
    accuracy = float(right.mean())
    return Trial(model.config, sampler, n, accuracy, (accuracy - constant) / scale, spread / scale)
