"""A hand-built counter before it is a model: its weights in float64, and how it becomes a CountingTransformer.

A construction only has to say what its tokens look like, how they are compared, and what the hidden units read, such
that the sum y of the hidden units tells the count. The read-out from y to classes, surplus dimensions and units (zero
weights), the number of classes and the precision are the same for all and are added here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.constructions.ranges import extreme_sequences, pre_activations, value_ranges, value_table
from counting_interp.models.constructions.scalar_readout import readout
from counting_interp.models.task import histogram
from counting_interp.models.transformer import CountingTransformer


@dataclass(frozen=True)
class Size:
    """What was asked for: alphabet T, length L, embedding dimension d, hidden units p, and a seed for searches."""

    T: int
    L: int
    d: int
    p: int
    seed: int = 0


@dataclass(frozen=True)
class Circuit:
    """Weights that make y = sum_j ReLU(x' W_in + b_in)_j a function of the count.

    Attributes:
        embeddings: `$` in the last row where the variant has one.
        W_in, b_in: what the hidden units read. Without b_in, unit j belongs to token j, and one bias for all units is
            chosen halfway between what keeps every unit on for its own token and off for all others.
        compare: the form B by which tokens are compared, score(t, s) = e_t B e_s (the 1/sqrt(d) is taken care of).
            None for `lin`, whose mixing matrix is 1/L everywhere.
        facts: what the checkpoint should say about this instance besides its name (coherence, temperature, ...).
    """

    embeddings: Float[Tensor, "vocab d_model"]
    W_in: Float[Tensor, "d_model d_mlp"]
    b_in: Float[Tensor, "d_mlp"] | None = None
    compare: Float[Tensor, "d_model d_model"] | None = None
    facts: dict[str, Any] | None = None


def assemble(
    circuit: Circuit, variant: str, size: Size, *, n_classes: int | None, dtype: str, mechanism: dict[str, Any]
) -> CountingTransformer:
    """The circuit as an ordinary model. Raises ValueError if the values of y for different counts overlap.

    The read-out is fitted to the weights as they are after rounding to `dtype`, so that rounding them costs nothing.
    """
    config = CountingConfig.parse(
        variant, T=size.T, L=size.L, d=size.d, p=size.p, n_classes=n_classes, dtype=dtype, seed=size.seed
    )
    weights = {name: value.to(getattr(torch, dtype)) for name, value in _padded(circuit, config).items()}
    if circuit.b_in is None:
        weights["blocks.0.mlp.b_in"][: size.T] = silencing_bias(weights, config)
    table = value_table(weights, config)
    slopes, offsets = readout(value_ranges(table), config.classes)
    weights["blocks.0.mlp.W_out"] = slopes.expand(config.p, -1).clone()
    weights["blocks.0.mlp.b_out"] = offsets
    facts = {"label": mechanism["label"], "provenance": "constructed", **mechanism, **(circuit.facts or {})}
    model = CountingTransformer(config, weights, {"mechanism": facts, "seed": size.seed})
    _check_precision(model, extreme_sequences(table))
    return model


def silencing_bias(weights: dict[str, Tensor], config: CountingConfig) -> float:
    """A bias that leaves unit t on at positions that hold t, whatever surrounds them, and all other units off."""
    least_own, most_other = float("inf"), -float("inf")
    for t, pre in enumerate(pre_activations(weights, config)):
        others = torch.arange(config.T) != t
        least_own = min(least_own, float(pre[..., t].min()))
        most_other = max(most_other, float(pre[..., : config.T][..., others].max()))
    if least_own <= most_other:
        raise ValueError(
            f"no bias silences the units of other tokens: they reach {most_other:.6g}, a token's own unit "
            f"only {least_own:.6g}; a larger d helps"
        )
    return -(least_own + most_other) / 2


def _check_precision(model: CountingTransformer, sequences: Int[Tensor, "batch pos"]) -> None:
    """The right logit is built to lead by 1; refuse if rounding eats half of it where values are extreme.

    (No proof, a guard against absurd sizes: `counting_interp.interp.proof` bounds the rounding errors.)
    """
    logits = model.count_logits(torch.cat([model(part).detach() for part in sequences.split(4096)]))
    right = histogram(sequences)[..., None] - 1
    lead = logits.gather(-1, right)[..., 0] - logits.scatter(-1, right, -torch.inf).amax(-1)
    if not float(lead.min()) >= 0.5:  # also if it is NaN
        hint = "; try dtype='float64'" if model.config.dtype == "float32" else ""
        raise ValueError(
            f"rounding in {model.config.dtype} is too coarse for T={model.config.T}, L={model.config.L}, "
            f"d={model.config.d} here: a logit that should lead by 1 leads by {float(lead.min()):.3g}{hint}"
        )


def _padded(circuit: Circuit, config: CountingConfig) -> dict[str, Tensor]:
    """State dict with an output layer of zeros; dimensions and units that the circuit does not need are zero, too."""
    used, units = circuit.W_in.shape
    weights = {one.name: torch.zeros(one.shape, dtype=torch.float64) for one in config.parameters}
    weights["embed.W_E"][:, :used] = circuit.embeddings
    weights["blocks.0.mlp.W_in"][:used, :units] = circuit.W_in
    if circuit.b_in is not None:
        weights["blocks.0.mlp.b_in"][:units] = circuit.b_in
    if circuit.compare is None:
        weights["blocks.0.attn.A"][:] = 0.0 if config.softmax else 1 / config.L
        return weights
    # the paper's W_Q = W_K = d^(1/4) I, with the form B on the side of the queries
    weights["blocks.0.attn.W_Q"][:used, :used] = config.d**0.25 * circuit.compare
    weights["blocks.0.attn.W_K"][:used, :used] = config.d**0.25 * torch.eye(used, dtype=torch.float64)
    return weights
