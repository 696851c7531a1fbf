"""How far the running model can be from the exact one: standard forward error analysis, term by term.

A sum of n products in arithmetic with unit roundoff u, in any order, with or without fused operations, is off by at
most gamma_n sum |x_i||y_i|, gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability, section 3.1); products with zero
are exact, so n counts the others. A softmax over scores known to within e_j has weights that are right up to the factor
exp(e_j + max e). The maxima over all sequences are taken at the corners of the simplex of histograms, where linear
functions and ratios of linear functions have them.

Magnitudes are sums of absolute values and take no credit for cancellation. So the same bound with u = 2^-53, times
OWN_FACTOR for the detour through vocabulary space, also covers the float64 arithmetic of this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from counting_interp.models.reduction import Reduction, View

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
LARGEST = {"float32": 2.0**120, "float64": 2.0**1000}
UNDERFLOW = 2.0**-126  # an upper bound on what flushing to zero can lose in one operation
OWN_FACTOR = 4.0
EXP_AND_DIVIDE = 10  # roundings in a softmax besides the sum: subtraction, exp to 4 ulp, division


class Rounding:
    """Bounds on |computed - exact| for the logit differences of a one-layer model.

    Args:
        reduction: the model.
        precision: `float32` or `float64`, of the arithmetic of the forward pass.
    """

    def __init__(self, reduction: Reduction, precision: str) -> None:
        self.r = reduction
        self.u = UNIT_ROUNDOFF[precision]
        self.largest = LARGEST[precision]
        config = reduction.config
        if config.mixing == "lin":
            exponent = self.u * np.ptp(reduction.scores, axis=1)
            self.relative = self._softmax_factor(exponent, exponent) if config.softmax else 0 * exponent  # [query]
        else:
            self.score_error = self._score_error()

    def gamma(self, n: Any) -> Any:
        """gamma_n, for a number of terms or an array of them."""
        return n * self.u / (1 - n * self.u)

    def product(
        self, x: Float[np.ndarray, "... a"], dx: Float[np.ndarray, "... a"], w: Float[np.ndarray, "a b"], extra: int = 0
    ) -> Float[np.ndarray, "... b"]:
        """Error of x @ w for magnitudes x with errors dx and exact w; `extra` further terms are added to the sum."""
        w = np.abs(w)
        terms = ((x + dx) != 0).astype(float) @ (w != 0).astype(float) + extra
        return dx @ w + self.gamma(terms) * ((x + dx) @ w) + terms * UNDERFLOW

    def margins(self, view: View, peaks: Float[np.ndarray, "count d_mlp"]) -> Float[np.ndarray, "count class"]:
        """For counts 1..L: how far the computed logit difference (right class minus each class) can be off.

        peaks: the largest pre-activation of each hidden unit over all sequences with that count.
        """
        r = self.r
        mixed, d_mixed = self._mixed(view)
        bias = np.abs(r.b_in)
        d_pre = self.product(mixed, d_mixed, r.W_in, extra=1) + self.gamma(r.config.d + 1) * bias
        dead = peaks + d_pre <= 0  # exactly zero in either arithmetic
        d_hidden = np.where(dead, 0.0, d_pre)
        hidden = np.where(dead, 0.0, np.maximum(peaks, 0) + d_pre)
        own = self.product(hidden, 0 * hidden, r.W_out, extra=1) + self.gamma(r.config.p + 1) * np.abs(r.b_out)
        largest = max(mixed.max(), (hidden @ np.abs(r.W_out)).max())
        if not (largest < self.largest and r.provable(view.token)):  # NaN is not smaller
            return np.full_like(own, np.inf)
        right = [r.class_of(count) for count in range(1, r.config.L + 1)]
        carried = np.stack([d_hidden[i] @ np.abs(r.W_out[:, [c]] - r.W_out) for i, c in enumerate(right)])
        rows = np.arange(len(right))
        return 1.01 * (carried + own + own[rows, right][:, None])

    def _mixed(self, view: View) -> tuple[Float[np.ndarray, "count d_model"], Float[np.ndarray, "count d_model"]]:
        """Magnitude and error of x + sum_m a_m x_m over all sequences with each count."""
        r, t, config = self.r, view.token, self.r.config
        E = np.abs(r.E)
        counts = np.arange(1, config.L + 1)[:, None]
        if config.mixing == "lin":
            l = view.position or 0  # noqa: E741 (any place, where all are alike)
            row = np.abs(r.A[l])
            summed = row[l] * E[t] + (row.sum() - row[l]) * E.max(0)
            error = (self.relative[l] + self.gamma(config.L)) * summed
            summed, error = np.tile(summed, (config.L, 1)), np.tile(error, (config.L, 1))
        elif config.softmax:
            weight = np.exp(r.S[t] - r.S[t].max())[:, None]
            gap = r.S[t].max() - r.S[t] + 2 * self.score_error[t].max()
            exponent = self.score_error[t] + self.u * gap
            factor = self._softmax_factor(exponent, exponent.max())[:, None] + self.gamma(config.n_positions)
            summed = _corner_means(weight, E, t, counts, config.T)
            error = _corner_means(weight, factor * E, t, counts, config.T) + config.n_positions * UNDERFLOW * E.max(0)
        else:
            weight = np.abs(r.S[t])[:, None]
            off = (
                self.score_error[t][:, None] * E
                + self.gamma(config.n_positions) * (weight + self.score_error[t][:, None]) * E
            )
            summed = _corner_sums(weight * E, t, counts, config.T)
            error = _corner_sums(off, t, counts, config.T)
        mixed = E[t] + summed
        return mixed, error + self.u * (mixed + error)

    def _softmax_factor(self, exponent: np.ndarray, largest: Any) -> np.ndarray:
        """Relative error of softmax weights whose exponents are off by at most `exponent`."""
        count = self.r.config.n_positions + EXP_AND_DIVIDE
        return np.expm1(np.minimum(exponent + largest, 700.0)) * (1 + self.gamma(count)) + self.gamma(count)

    def _score_error(self) -> Float[np.ndarray, "vocab vocab"]:
        r = self.r
        E, none = np.abs(r.E), np.zeros_like(r.E)
        q, k = np.abs(r.E @ r.W_Q), np.abs(r.E @ r.W_K)
        dq, dk = self.product(E, none, r.W_Q), self.product(E, none, r.W_K)
        terms = ((q + dq) != 0).astype(float) @ ((k + dk) != 0).T.astype(float)
        size = (q + dq) @ (k + dk).T
        raw = dq @ k.T + (q + dq) @ dk.T + self.gamma(terms + 2) * size + terms * UNDERFLOW
        return raw / r.config.d**0.5


def _corner_means(
    weight: Float[np.ndarray, "vocab 1"], f: Float[np.ndarray, "vocab d"], t: int, counts: np.ndarray, T: int
) -> Float[np.ndarray, "count d"]:
    """Largest weighted mean of f over the places of a sequence: at a corner, all other places hold one token."""
    fixed, total = counts * (weight * f)[t], counts * weight[t]
    if len(weight) > T:
        fixed, total = fixed + (weight * f)[T], total + weight[T]
    rest = (len(counts) - counts)[:, :, None]  # [count, 1, 1]
    return ((fixed[:, None] + rest * (weight * f)[:T]) / (total[:, None] + rest * weight[:T])).max(1)


def _corner_sums(f: Float[np.ndarray, "vocab d"], t: int, counts: np.ndarray, T: int) -> Float[np.ndarray, "count d"]:
    fixed = counts * f[t] + (f[T] if len(f) > T else 0.0)
    return fixed + (len(counts) - counts) * f[:T].max(0)
