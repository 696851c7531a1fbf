"""Between which values the read-out scalar y lies when the counted token occurs k times: exact, over all sequences.

Look at a position that holds token t, with count k. What the other L - k places hold is a multiset of tokens other
than t. Every pre-activation is linear in it, or with softmax a quotient of two linear functions with the same positive
denominator. If no hidden unit changes sign (t and k fixed), then y, a sum of units, has that form too, and such
functions take their extremes where one filler token s occupies all L - k places. So T x L x (T - 1) cases prove
something about all T^L sequences. The same argument shows that no unit changes sign if none does in those cases.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from models.config import CountingConfig

Ranges = tuple[Float[Tensor, "count"], Float[Tensor, "count"]]


def value_ranges(weights: dict[str, Tensor], config: CountingConfig) -> Ranges:
    """Smallest and largest y for the counts 1..L, over all tokens and all fillers, in float64.

    Raises ValueError if a hidden unit changes sign with the fillers, when the argument above does not hold.
    """
    W_E, W_in, b_in = (weights[name].double() for name in ("embed.W_E", "blocks.0.mlp.W_in", "blocks.0.mlp.b_in"))
    T, L = config.T, config.L
    values = W_E @ W_in  # [vocab, d_mlp]
    gains = _gains(weights, W_E, config)  # [query token, vocab]
    counts = torch.arange(1, L + 1, dtype=torch.float64)
    low, high = torch.full((L,), torch.inf, dtype=torch.float64), torch.full((L,), -torch.inf, dtype=torch.float64)
    for t in range(T):
        others = torch.arange(T) != t
        own, fillers = gains[t, t], gains[t, :T][others]  # [], [filler]
        same = torch.einsum("k,j->kj", counts * own, values[t])
        rest = torch.einsum("k,s,sj->ksj", L - counts, fillers, values[:T][others])
        mixed = same[:, None] + rest  # [count, filler, d_mlp]
        total = (counts * own)[:, None] + (L - counts)[:, None] * fillers
        if config.has_bos:
            mixed = mixed + gains[t, T] * values[T]
            total = total + gains[t, T]
        if config.softmax:
            mixed = mixed / total[..., None]
        pre = mixed + values[t] + b_in
        if bool(((pre > 0).any(1) & (pre < 0).any(1)).any()):
            raise ValueError(f"a hidden unit changes sign with the tokens around token {t}: the circuit is not exact")
        y = pre.relu().sum(-1)  # [count, filler]
        low, high = torch.minimum(low, y.amin(1)), torch.maximum(high, y.amax(1))
    return low, high


def _gains(weights: dict[str, Tensor], W_E: Tensor, config: CountingConfig) -> Float[Tensor, "query vocab"]:
    """Mixing weight per occurrence of each token, before the softmax is normalised (exp of the scores, shifted)."""
    if config.mixing == "lin":
        A = weights["blocks.0.attn.A"].double()
        flat = A.flatten()[0]
        assert bool((flat == A).all()), "hand-built mixing matrices are constant"
        return torch.full((config.T, config.vocab), 1.0 if config.softmax else float(flat), dtype=torch.float64)
    W_Q, W_K = (weights[f"blocks.0.attn.{name}"].double() for name in ("W_Q", "W_K"))
    scores = (W_E[: config.T] @ W_Q) @ (W_E @ W_K).T / config.d**0.5
    return (scores - scores.amax(1, keepdim=True)).exp() if config.softmax else scores
