"""A one-layer model in the form in which it can be proved: pre-activations that are sums over the other positions.

At a position that holds token t, k times in the sequence, let the others hold x_1 .. x_r. For all six variants

    z = base(t, k) + sum_m a_m V_t[x_m],    logits = (ReLU(z_1 .. z_p) W_out + z_D b_out) / z_D,    z_D > 0,

so only the sign of a piecewise linear function of z decides. With F = E W_in (`$` is a position that always holds `$`):

  - `dot`, `bos` without softmax: V_t[s] = S_ts F_s, a_m = 1, z_D = 1, S the table of attention scores.
  - with softmax: V_t[s] = exp(S_ts) (F_s + F_t + b_in, 1), a_m = 1. ReLU is homogeneous, so everything was multiplied
    by D(n) = sum_s n_s exp(S_ts), itself a sum over the positions. Any common factor of a row of exp(S) cancels.
  - `lin`, `lin+sftm`: V[s] = F_s, a_m = A_lm depends on the two positions, z_D = 1; k - 1 of the x_m are t itself.
    Where A has one value on its diagonal and one beside it, all positions see the same: V[s] = a F_s, a_m = 1.

For `dot`, `bos` and such equal positions the order of the x_m does not matter: they are a multiset of the other T - 1
tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from counting_interp.models.transformer import CountingTransformer

MAX_SCORE_RANGE = 600.0  # exp of it is far from overflow in float64


@dataclass(frozen=True)
class View:
    """What a position sees: its token, for `lin` its position, and the sums that its pre-activations are made of.

    Attributes:
        token: t.
        position: l, for constant mixers; None where positions do not matter.
        base: z before the others are added; row k - 1 for count k. With a position, without the k - 1 copies of t.
        table: V_t, one row per token; the last column is z_D.
        weights: a_m of the other positions, in order of their positions; None where all are one.
    """

    token: int
    position: int | None
    base: Float[np.ndarray, "count d_mlp_and_D"]
    table: Float[np.ndarray, "T d_mlp_and_D"]
    weights: Float[np.ndarray, "others"] | None

    @cached_property
    def columns(self) -> Float[np.ndarray, "d_mlp_and_D T"]:
        """The table with the tokens in the last axis, where the compiled loops want them."""
        return np.ascontiguousarray(self.table.T)


class Reduction:
    """The weights of a one-layer model in float64, and its views."""

    def __init__(self, model: CountingTransformer) -> None:
        self.config = model.config
        if self.config.n_layers != 1 or not self.config.is_paper_block:
            got = f"{self.config.name}, n_layers={self.config.n_layers}"
            raise ValueError(f"only one-layer models of the paper's blocks reduce to sums over positions, got {got}")
        self.weights = {name: w.detach().cpu().double().numpy() for name, w in model.state_dict().items()}
        weights = self.weights
        self.E = weights["embed.W_E"]
        self.W_in, self.b_in = weights["blocks.0.mlp.W_in"], weights["blocks.0.mlp.b_in"]
        self.W_out, self.b_out = weights["blocks.0.mlp.W_out"], weights["blocks.0.mlp.b_out"]
        self.F = self.E @ self.W_in  # [vocab, d_mlp]
        if self.config.mixing == "lin":
            self.scores = weights["blocks.0.attn.A"]  # [query, key]
            self.A = _softmax(self.scores) if self.config.softmax else self.scores
        else:
            self.W_Q, self.W_K = weights["blocks.0.attn.W_Q"], weights["blocks.0.attn.W_K"]
            self.S = (self.E @ self.W_Q) @ (self.E @ self.W_K).T / self.config.d**0.5  # [vocab, vocab]

    def class_of(self, count: int) -> int:
        return count - self.config.first_count

    @cached_property
    def positions(self) -> tuple[int | None, ...]:
        """Whose views differ; None alone where all positions see the same."""
        if self.config.mixing != "lin":
            return (None,)
        own = np.eye(self.config.L, dtype=bool)
        uniform = self.config.L > 1 and all(np.ptp(self.scores[which]) == 0 for which in (own, ~own))
        return (None,) if uniform else tuple(range(self.config.L))

    def view(self, token: int, position: int | None = None) -> View:
        """The view of a position that holds `token`; `position` only for constant mixers, None where all are equal."""
        T, L = self.config.T, self.config.L
        if position is not None:
            row = self.A[position]
            base = self.F[token] * (1 + row[position]) + self.b_in
            return View(
                token,
                position,
                np.tile(np.append(base, 1.0), (L, 1)),
                np.column_stack([self.F[:T], np.zeros(T)]),
                np.delete(row, position),
            )
        counts = np.arange(1, L + 1)[:, None]
        if self.config.mixing == "lin":
            own, other = self.A[0, :2]
            rows = other * np.column_stack([self.F, np.zeros(T)])
            start = np.append(self.F[token] * (1 + own - other) + self.b_in, 1.0)
        elif self.config.softmax:
            weight = np.exp(self.S[token] - self.S[token].max())[:, None]
            rows = weight * np.column_stack([self.F + self.F[token] + self.b_in, np.ones(len(self.F))])
            start = np.zeros(rows.shape[1])
        else:
            rows = self.S[token][:, None] * np.column_stack([self.F, np.zeros(len(self.F))])
            start = np.append(self.F[token] + self.b_in, 1.0)
        if self.config.has_bos:
            start = start + rows[T]
        return View(token, None, start + counts * rows[token], rows[:T], None)

    def provable(self, token: int) -> bool:
        """Whether float64 holds this token's sums: everything is finite, and z_D stays clear of underflow. For that no
        other token may have a score so much higher that what a sequence without it computes is lost."""
        if not np.isfinite(self.F).all():
            return False
        if self.config.mixing == "lin" or not self.config.softmax:
            return bool(np.isfinite(self.A if self.config.mixing == "lin" else self.S[token]).all())
        present = max(self.S[token, token], self.S[token, -1] if self.config.has_bos else -np.inf)
        return bool(self.S[token].max() - present < MAX_SCORE_RANGE)


def _softmax(scores: Float[np.ndarray, "query key"]) -> Float[np.ndarray, "query key"]:
    weight = np.exp(scores - scores.max(1, keepdims=True))
    return weight / weight.sum(1, keepdims=True)
