"""A hand-built counter before it is a model: its weights in float64, and how it becomes a CountingTransformer.

A construction fixes the embeddings, the form by which they are compared, and what the hidden units read. The sum y of
the hidden units must tell the count. `assemble` adds what all constructions share: the read-out from y to classes,
zeros for surplus dimensions and units, the number of classes and the precision.

`value_ranges`: between which values y lies when a token occurs k times, exactly, over all sequences. At a position that
holds t, k times, the other L - k positions hold a multiset of other tokens. Every pre-activation is linear in it, or
with softmax a quotient of two linear functions with the same positive denominator. If no hidden unit changes sign (t
and k fixed), then y, a sum of units, has that form too. Such functions take their extremes where one filler token s
occupies all L - k positions. So T x L x (T - 1) cases prove something about all T^L sequences. The same argument shows
that no unit changes sign if none does in those cases.

`readout`: from y to classes (paper, Sec. "Mapping a scalar ..."). The ranges [low_k, high_k] of y are disjoint. A
decision boundary lies halfway between the ranges of k and k + 1. Logit c is a line s_c y + o_c. The slopes rise (or
fall, where y falls with the count) from class to class by the same step, and each line crosses its neighbour's at their
boundary. The upper envelope of such lines is convex, so class c wins exactly between its two boundaries. The step is
such that the correct logit leads by at least 1. A class for count 0 wins only below the range of count 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.task import histogram
from counting_interp.models.transformer import CountingTransformer

Ranges = tuple[Float[Tensor, "count"], Float[Tensor, "count"]]


def eye(n: int) -> Float[Tensor, "n n"]:
    return torch.eye(n, dtype=torch.float64)


def real(numbers: list[float]) -> Float[Tensor, "n"]:
    return torch.tensor(numbers, dtype=torch.float64)


@dataclass(frozen=True)
class Size:
    """Alphabet T, length L, embedding dimension d, hidden units p, and a seed for searches."""

    T: int
    L: int
    d: int
    p: int
    seed: int = 0


@dataclass(frozen=True)
class Circuit:
    """Weights that make y = sum_j ReLU(x' W_in + b_in)_j a function of the count.

    Attributes:
        embeddings: in `bos` variants the last row is `$`.
        W_in, b_in: what the hidden units read. Without b_in, unit j belongs to token j, and `silencing_bias` is used.
        compare: the form B by which tokens are compared, score(t, s) = e_t B e_s; `assemble` undoes the 1/sqrt(d).
            None for `lin`, whose mixing matrix is 1/L everywhere.
        facts: for the metadata of the checkpoint: coherence, temperature, ...
    """

    embeddings: Float[Tensor, "vocab d_model"]
    W_in: Float[Tensor, "d_model d_mlp"]
    b_in: Float[Tensor, "d_mlp"] | None = None
    compare: Float[Tensor, "d_model d_model"] | None = None
    facts: dict[str, Any] | None = None


def assemble(
    circuit: Circuit, variant: str, size: Size, *, n_classes: int | None, dtype: str, mechanism: dict[str, Any]
) -> CountingTransformer:
    """The circuit as an ordinary model. The read-out is fitted to the weights after rounding to `dtype`.

    Raises:
        ValueError: the values of y for two counts overlap, or rounding in the forward pass is too coarse.
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
    """A bias that keeps unit t on at every position that holds t, and all other units off there."""
    least_own, most_other = float("inf"), -float("inf")
    for t, units in enumerate(pre_activations(weights, config)):
        others = torch.arange(config.T) != t
        least_own = min(least_own, float(units[..., t].min()))
        most_other = max(most_other, float(units[..., : config.T][..., others].max()))
    if least_own <= most_other:
        raise ValueError(
            f"no bias silences the units of other tokens: they reach {most_other:.6g}, a token's own unit "
            f"only {least_own:.6g}; a larger d helps"
        )
    return -(least_own + most_other) / 2


def _check_precision(model: CountingTransformer, sequences: Int[Tensor, "batch pos"]) -> None:
    """Refuse a model whose correct logit, built to lead by 1, leads by less than half on these sequences.

    This is a guard against absurd sizes, no proof: `counting_interp.interp.proof` bounds the rounding errors.
    """
    logits = model.count_logits(torch.cat([model(batch).detach() for batch in sequences.split(4096)]))
    true_class = histogram(sequences)[..., None] - 1
    lead = logits.gather(-1, true_class)[..., 0] - logits.scatter(-1, true_class, -torch.inf).amax(-1)
    if not float(lead.min()) >= 0.5:  # also if it is NaN
        hint = "; try dtype='float64'" if model.config.dtype == "float32" else ""
        raise ValueError(
            f"rounding in {model.config.dtype} is too coarse for T={model.config.T}, L={model.config.L}, "
            f"d={model.config.d} here: a logit that should lead by 1 leads by {float(lead.min()):.3g}{hint}"
        )


def _padded(circuit: Circuit, config: CountingConfig) -> dict[str, Tensor]:
    """The circuit as a state dict; its output layer and the surplus dimensions and units are zero."""
    used, units = circuit.W_in.shape
    weights = {spec.name: torch.zeros(spec.shape, dtype=torch.float64) for spec in config.parameters}
    weights["embed.W_E"][:, :used] = circuit.embeddings
    weights["blocks.0.mlp.W_in"][:used, :units] = circuit.W_in
    if circuit.b_in is not None:
        weights["blocks.0.mlp.b_in"][:units] = circuit.b_in
    if circuit.compare is None:
        weights["blocks.0.attn.A"][:] = 0.0 if config.softmax else 1 / config.L
        return weights
    # the paper's W_Q = W_K = d^(1/4) I, with the form B on the side of the queries
    weights["blocks.0.attn.W_Q"][:used, :used] = config.d**0.25 * circuit.compare
    weights["blocks.0.attn.W_K"][:used, :used] = config.d**0.25 * eye(used)
    return weights


def pre_activations(
    weights: dict[str, Tensor], config: CountingConfig
) -> Iterator[Float[Tensor, "count filler d_mlp"]]:
    """For each token t, the hidden units before the ReLU where t occurs k times and one filler L - k times."""
    W_E, W_in, b_in = (weights[name].double() for name in ("embed.W_E", "blocks.0.mlp.W_in", "blocks.0.mlp.b_in"))
    T, L = config.T, config.L
    values = W_E @ W_in  # [vocab, d_mlp]
    gains = _gains(weights, W_E, config)  # [query token, vocab]
    counts = torch.arange(1, L + 1, dtype=torch.float64)
    for t in range(T):
        others = torch.arange(T) != t
        own, fillers = gains[t, t], gains[t, :T][others]
        copies = torch.einsum("k,j->kj", counts * own, values[t])
        mixed = copies[:, None] + torch.einsum("k,s,sj->ksj", L - counts, fillers, values[:T][others])
        total = (counts * own)[:, None] + (L - counts)[:, None] * fillers  # [count, filler]
        if config.has_bos:
            mixed = mixed + gains[t, T] * values[T]
            total = total + gains[t, T]
        yield (mixed / total[..., None] if config.softmax else mixed) + values[t] + b_in


def value_table(weights: dict[str, Tensor], config: CountingConfig) -> Float[Tensor, "token count filler"]:
    """y in all those cases, in float64; fillers are the tokens other than t in their order.

    Raises:
        ValueError: a hidden unit changes sign with the fillers, so the argument of this module does not hold.
    """
    table = []
    for t, units in enumerate(pre_activations(weights, config)):
        if bool(((units > 0).any(1) & (units < 0).any(1)).any()):
            raise ValueError(f"a hidden unit changes sign with the tokens around token {t}: the circuit is not exact")
        table.append(units.relu().sum(-1))
    return torch.stack(table)


def value_ranges(table: Float[Tensor, "token count filler"]) -> Ranges:
    """Smallest and largest y for the counts 1..L, over all tokens and all fillers."""
    return table.amin((0, 2)), table.amax((0, 2))


def extreme_sequences(table: Float[Tensor, "token count filler"]) -> Int[Tensor, "batch pos"]:
    """For each token and count the two sequences in which y is smallest and largest."""
    T, L, _ = table.shape
    fillers = torch.stack([table.argmin(2), table.argmax(2)], -1)  # [token, count, 2]
    token = torch.arange(T)[:, None, None, None]
    fillers = fillers[..., None] + (fillers[..., None] >= token)
    copies = torch.arange(L) <= torch.arange(L)[:, None]  # [count, pos]
    return torch.where(copies[None, :, None], token, fillers).reshape(-1, L)


def _gains(weights: dict[str, Tensor], W_E: Tensor, config: CountingConfig) -> Float[Tensor, "query vocab"]:
    """Mixing weight per occurrence of each token, before the softmax is normalised."""
    if config.mixing == "lin":
        A = weights["blocks.0.attn.A"].double()
        flat = float(A[0, 0])
        assert bool((A.eq(flat)).all()), "hand-built mixing matrices are constant"
        return torch.full((config.T, config.vocab), 1.0 if config.softmax else flat, dtype=torch.float64)
    W_Q, W_K = (weights[f"blocks.0.attn.{name}"].double() for name in ("W_Q", "W_K"))
    scores = (W_E[: config.T] @ W_Q) @ (W_E @ W_K).T / config.d**0.5
    return (scores - scores.amax(1, keepdim=True)).exp() if config.softmax else scores


def boundaries(ranges: Ranges) -> tuple[Float[Tensor, "boundary"], float]:
    """The L - 1 decision boundaries halfway between neighbouring ranges, and the margin.

    The margin is half the smallest gap: y may move by it before a class changes. It is negative where y falls with the
    count.

    Raises:
        ValueError: the ranges of two neighbouring counts overlap.
    """
    low, high = ranges
    rising, falling = low[1:] - high[:-1], low[:-1] - high[1:]
    if bool((rising > 0).all()):
        return (high[:-1] + low[1:]) / 2, float(rising.min() / 2)
    if bool((falling > 0).all()):
        return (low[:-1] + high[1:]) / 2, -float(falling.min() / 2)
    k = int(torch.maximum(rising, falling).argmin()) + 1
    raise ValueError(
        f"the values for counts {k} and {k + 1} overlap: "
        f"[{low[k - 1]:.6g}, {high[k - 1]:.6g}] and [{low[k]:.6g}, {high[k]:.6g}]"
    )


def readout(ranges: Ranges, n_classes: int) -> tuple[Float[Tensor, "class"], Float[Tensor, "class"]]:
    """Slopes and offsets of the logits as lines of y: W_out, the same for each hidden unit, and b_out.

    Args:
        ranges: smallest and largest y for the counts 1..L.
        n_classes: L, or L + 1 if class 0 means count 0.
    """
    low, high = ranges
    edges, margin = boundaries(ranges)
    if n_classes == len(low) + 1:
        edges = torch.cat([(low if margin > 0 else high)[:1] - margin, edges])
    step = 1 / margin
    slopes = step * (torch.arange(n_classes, dtype=low.dtype) - (n_classes - 1) / 2)
    offsets = torch.cat([torch.zeros(1, dtype=low.dtype), -step * edges.cumsum(0)])
    return slopes, offsets - offsets.mean()
