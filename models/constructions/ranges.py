"""Between which values the read-out scalar y lies when the counted token occurs k times: exact, over all sequences.

Look at a position that holds token t, with count k. What the other L - k places hold is a multiset of tokens other
than t. Every pre-activation is linear in it, or with softmax a quotient of two linear functions with the same positive
denominator. If no hidden unit changes sign (t and k fixed), then y, a sum of units, has that form too, and such
functions take their extremes where one filler token s occupies all L - k places. So T x L x (T - 1) cases prove
something about all T^L sequences. The same argument shows that no unit changes sign if none does in those cases.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig

Ranges = tuple[Float[Tensor, "count"], Float[Tensor, "count"]]


def pre_activations(
    weights: dict[str, Tensor], config: CountingConfig
) -> Iterator[Float[Tensor, "count filler d_mlp"]]:
    """For each token t: hidden units before the ReLU when t occurs k times and one other token L - k times."""
    W_E, W_in, b_in = (weights[name].double() for name in ("embed.W_E", "blocks.0.mlp.W_in", "blocks.0.mlp.b_in"))
    T, L = config.T, config.L
    values = W_E @ W_in  # [vocab, d_mlp]
    gains = _gains(weights, W_E, config)  # [query token, vocab]
    counts = torch.arange(1, L + 1, dtype=torch.float64)
    for t in range(T):
        others = torch.arange(T) != t
        own, fillers = gains[t, t], gains[t, :T][others]
        same = torch.einsum("k,j->kj", counts * own, values[t])
        rest = torch.einsum("k,s,sj->ksj", L - counts, fillers, values[:T][others])
        mixed = same[:, None] + rest
        total = (counts * own)[:, None] + (L - counts)[:, None] * fillers  # [count, filler]
        if config.has_bos:
            mixed = mixed + gains[t, T] * values[T]
            total = total + gains[t, T]
        yield (mixed / total[..., None] if config.softmax else mixed) + values[t] + b_in


def value_table(weights: dict[str, Tensor], config: CountingConfig) -> Float[Tensor, "token count filler"]:
    """y in all those cases, in float64; fillers are the tokens other than t in their order.

    Raises ValueError if a hidden unit changes sign with the fillers, when the argument above does not hold.
    """
    table = []
    for t, pre in enumerate(pre_activations(weights, config)):
        if bool(((pre > 0).any(1) & (pre < 0).any(1)).any()):
            raise ValueError(f"a hidden unit changes sign with the tokens around token {t}: the circuit is not exact")
        table.append(pre.relu().sum(-1))
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
    """Mixing weight per occurrence of each token, before the softmax is normalised (exp of the scores, shifted)."""
    if config.mixing == "lin":
        A = weights["blocks.0.attn.A"].double()
        flat = float(A[0, 0])
        assert bool((A.eq(flat)).all()), "hand-built mixing matrices are constant"
        return torch.full((config.T, config.vocab), 1.0 if config.softmax else flat, dtype=torch.float64)
    W_Q, W_K = (weights[f"blocks.0.attn.{name}"].double() for name in ("W_Q", "W_K"))
    scores = (W_E[: config.T] @ W_Q) @ (W_E @ W_K).T / config.d**0.5
    return (scores - scores.amax(1, keepdim=True)).exp() if config.softmax else scores
