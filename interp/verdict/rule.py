"""WHERE A VERDICT IS DECIDED: measure accuracy and transplants, then name the mechanism.

The shares are the verdict, and `probes.shares.name_of` gives them a short name. Two kinds of models get no name. One
that is right at less than 95 % of positions is *unsolved*, and the verdict only says what it leans to. One whose
transplants contradict each other is *undecided*, and `reason` says why.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from counting_interp.interp.verdict.verdict import Mechanism, Verdict
from counting_interp.models.adapter import Adapter
from counting_interp.models.cost import affordable
from counting_interp.models.protocol import CountingModel
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.accuracy import Counting, counting
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.questions import ListOrQuestion, list_or_question
from counting_interp.probes.transplants import Transplants, transplants
from counting_interp.util.errors import InterpError
from counting_interp.util.text import percent

MIN_ACCURACY = 0.95  # of positions, on sequences of the training sampler
PATIENCE = 8  # seconds, about, that transplants may take on an unusually large model
PAIRS, QUICK_PAIRS, LEAST_PAIRS = 64, 32, 16


@torch.no_grad()
def classify(model: CountingModel, *, quick: bool = False, prove: bool = False, seed: int = 0) -> Verdict:
    """How does this model count?

    Args:
        model: any counting model with T >= 4 and L >= 3. Wrap models other than `CountingTransformer` in an `Adapter`.
        quick: use half of the sequences; intervals are wider.
        prove: also prove what the transplants do on every sequence (one-layer models of the paper's blocks; takes
            seconds).
        seed: seed of the sequences and the bootstrap. The same seed gives the same verdict, to the last digit.

    Raises:
        NotApplicable: if T or L is too small for transplants.
        InterpError: if the model is so large that the verdict would take minutes.
    """
    config = model.config
    if PATIENCE * affordable(config, PATIENCE * config.T * config.L) < config.T * config.L:
        raise InterpError(
            f"a model of T={config.T}, L={config.L}, d={config.d}, p={config.p} would take minutes to classify; "
            "run the probes you need by themselves (interp probe)"
        )
    n_pairs = max(LEAST_PAIRS, min(QUICK_PAIRS if quick else PAIRS, affordable(config, 10**6) // 45))
    counted = counting(model, n=affordable(config, 500 if quick else 1000), seed=seed)
    if isinstance(model, Adapter) and model.config.asks:
        asked = list_or_question(model, n_pairs=n_pairs, seed=seed)
        verdict = decide(model, counted, asked.decides, asked)
    else:
        verdict = decide(model, counted, transplants(model, n_pairs=n_pairs, seed=seed))
    return proved(verdict, model, seed) if prove else verdict


def proved(verdict: Verdict, model: CountingModel, seed: int = 0) -> Verdict:
    """The verdict with a proof of its transplants, or with the reason why there is none."""
    if not isinstance(model, CountingTransformer):
        return replace(verdict, unproved="proofs read the weights of counting transformers")
    from counting_interp.interp.proof.transplants import prove_transplants  # compiles on import

    by_queries = bool(verdict.transplants and verdict.transplants.by_queries and verdict.transplants.by_queries[0])
    try:
        return replace(verdict, proved=prove_transplants(model, by_queries=by_queries, seed=seed))
    except NotApplicable as reason:
        return replace(verdict, unproved=str(reason))


def decide(
    model: CountingModel, counted: Counting, measured: Transplants, asked: ListOrQuestion | None = None
) -> Verdict:
    """From accuracy and transplants to a verdict.

    Args:
        measured: the transplants that decide.
        asked: for a model with a question at the end, the transplants at the question and in the list.
    """
    named = Mechanism(measured.label) if measured.label else None
    solved = counted.accuracy >= MIN_ACCURACY
    reason = measured.reason
    if not solved:
        reason = (
            f"{percent(counted.accuracy)} of positions are right, and {percent(MIN_ACCURACY, 0)} are needed to say how"
        )
        reason = ". ".join([reason, *getattr(model, "notes", ())])
    return Verdict(
        mechanism=(named or Mechanism.UNDECIDED) if solved else Mechanism.UNSOLVED,
        estimates=measured.estimates + (() if asked is None else asked.estimates),
        accuracy=counted.accuracy,
        sampler=counted.sampler,
        leans=None if solved else named,
        reason=reason,
        accuracy_by_count=tuple(counted.by_count),
        spec=model.config,
        transplants=measured,
        asked=asked,
    )
