"""How far the running model can be from the exact one.

**The arithmetic.** Every executed operation gives fl(x o y) = (x o y)(1 + delta) + eta, in sums of any order, fused or
not. |delta| is at most u, the unit roundoff of the precision. |eta| is at most UNDERFLOW: it stands for whatever
happens below the smallest normal number, which loses less than 2^-125 in float32.

**The ordinary range.** Every weight is zero or between 1 / LIMIT and LIMIT in magnitude. For every intermediate value
the magnitudes of its terms add up to less than LIMIT. So nothing overflows, and no stored weight is read as zero.
Models outside the range are not proved.

**All sequences at once** (`Rounding`, one layer): a priori forward error analysis. A sum of n products, in any order,
is off by at most gamma_n sum |x_i||y_i| + 2 n eta, with gamma_n = n u / (1 - n u) (Higham, Accuracy and Stability,
3.1). Products with zero are exact, so n counts the others. A softmax over scores known to within e_j has weights that
are right up to the factor exp(e_j + max e), and to three eta. Linear functions and ratios of linear functions have
their maxima at the corners of the simplex of histograms. Magnitudes are sums of absolute values and take no credit for
cancellation. So the same bound with u = 2^-53, times OWN_FACTOR for the detour through vocabulary space, also covers
this package's float64.

**Sequence by sequence** (`RunningError`, any depth): the error of every intermediate value is carried along with it, by
the same rules. Where the terms of a sum may leave the ordinary range, the error is infinite and stays so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.interp.proof.reduction import Reduction, View
from counting_interp.models.blocks import Block, ConstantMixer, DotProductMixer, FeedForward, Mixer
from counting_interp.models.transformer import CountingTransformer

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
UNDERFLOW = 2.0**-120
LIMIT = 2.0**100  # of weights and of sums of magnitudes; nonzero weights are not below its inverse
OUTSIDE = "it lies outside the ordinary range, where proofs about floating point are valid"
EXP_ULP = 8  # to which exp must be good; about 4 were seen of torch
# Roundings of a softmax besides those of its sum: exp above and below the fraction bar, an ulp being two u, and a
# division that may be a reciprocal and a product. The subtraction of the maximum is counted with the exponents.
EXP_AND_DIVIDE = 2 * 2 * EXP_ULP + 1  # a sum of n terms has n - 1 roundings
OWN_FACTOR = 4.0
LARGEST_EXPONENT_ERROR = 0.5  # beyond, a softmax is not bounded at all


def weights_outside(weights: Mapping[str, np.ndarray]) -> str | None:
    """Which weights are too large or too small for the ordinary range; None where all are inside."""
    for name, weight in weights.items():
        sizes = np.abs(weight[weight != 0])
        if (sizes < 1 / LIMIT).any():
            return f"{OUTSIDE}: {name} has weights below 2^-100 that are not zero"
        if not (sizes <= LIMIT).all():  # nor is NaN
            return f"{OUTSIDE}: {name} has weights above 2^100"
    return None


def values_outside(r: Reduction) -> str | None:
    """Which value of a one-layer model can leave the ordinary range on some sequence, by sums of magnitudes.

    Dead units, units that no class reads, and products with zero are not left out. None where no value can.
    """
    E = np.abs(r.E)
    sizes: dict[str, np.ndarray] = {}
    if r.config.mixing == "lin":
        pattern = np.abs(r.scores)
    else:
        sizes["queries"], sizes["keys"] = E @ np.abs(r.W_Q), E @ np.abs(r.W_K)
        sizes["scores"] = pattern = sizes["queries"] @ sizes["keys"].T
    weight = 1.0 if r.config.softmax else pattern.max()
    sizes["mixed tokens"] = E.max(0) * (1 + r.config.n_positions * weight)
    sizes["hidden units"] = sizes["mixed tokens"] @ np.abs(r.W_in) + np.abs(r.b_in)
    sizes["logits"] = sizes["hidden units"] @ np.abs(r.W_out) + np.abs(r.b_out)
    for name, size in sizes.items():
        if not (size < LIMIT).all():  # nor is NaN
            return f"{OUTSIDE}: terms of its {name} can add up to more than 2^100"
    return None


class Rounding:
    """Bounds on |computed - exact| for the logit differences of a one-layer model; infinite outside the ordinary range.

    Args:
        reduction: the model.
        precision: `float32` or `float64`, of the arithmetic of the forward pass.

    Attributes:
        outside: why the model is not in the ordinary range; None where it is.
    """

    def __init__(self, reduction: Reduction, precision: str) -> None:
        self.r = reduction
        self.u = UNIT_ROUNDOFF[precision]
        self.outside = weights_outside(reduction.weights) or values_outside(reduction)
        self.used = (reduction.E != 0).any(0)  # [d_model]; elsewhere every product is zero
        config = reduction.config
        if config.mixing == "lin":
            exponent = self.u * np.ptp(reduction.scores, axis=1) + UNDERFLOW
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
        return dx @ w + self.gamma(terms) * ((x + dx) @ w) + 2 * terms * UNDERFLOW

    def margins(
        self,
        view: View,
        peaks: Float[np.ndarray, "count d_mlp"],
        added: Float[np.ndarray, "d_model"] | float = 0.0,
        said: Sequence[int] | None = None,
    ) -> Float[np.ndarray, "count class"]:
        """For counts 1..L: how far the computed logit difference (right class minus each class) can be off.

        peaks: the largest pre-activation of each hidden unit over all sequences with that count, in float64.
        added: magnitude of a vector that is added to the mixer's output.
        said: the count that is the right answer at each count; itself when absent.
        """
        r = self.r
        mixed, d_mixed = self._mixed(view, added)
        if self.outside or not (np.isfinite(d_mixed).all() and r.provable(view.token)):
            return np.full((r.config.L, r.config.classes), np.inf)
        bias = np.abs(r.b_in)
        d_pre = self.product(mixed, d_mixed, r.W_in, extra=1) + self.gamma(r.config.d + 1) * bias
        highest = peaks + (1 + OWN_FACTOR) * d_pre  # in either arithmetic, and the error of `peaks` itself
        dead = highest <= 0
        d_hidden = np.where(dead, 0.0, d_pre)
        hidden = np.where(dead, 0.0, np.maximum(highest, 0))
        own = self.product(hidden, 0 * hidden, r.W_out, extra=1) + self.gamma(r.config.p + 1) * np.abs(r.b_out)
        right = [r.class_of(count) for count in (range(1, r.config.L + 1) if said is None else said)]
        carried = np.stack([d_hidden[i] @ np.abs(r.W_out[:, [c]] - r.W_out) for i, c in enumerate(right)])
        rows = np.arange(len(right))
        return 1.01 * (carried + own + own[rows, right][:, None])

    def _mixed(
        self, view: View, added: Float[np.ndarray, "d_model"] | float
    ) -> tuple[Float[np.ndarray, "count d_model"], Float[np.ndarray, "count d_model"]]:
        """Magnitude and error of x + (sum_m a_m x_m + added) over all sequences with each count."""
        r, t, config = self.r, view.token, self.r.config
        E, n = np.abs(r.E), config.n_positions
        gamma, below = self.gamma(n), 2 * n * UNDERFLOW * self.used
        counts = np.arange(1, config.L + 1)[:, None]
        if config.mixing == "lin":
            l = view.position or 0  # noqa: E741 (any position, where all are equal)
            row = np.abs(r.A[l])
            summed = row[l] * E[t] + (row.sum() - row[l]) * E.max(0)
            error = (self.relative[l] + gamma * (1 + self.relative[l])) * summed
            summed, error = np.tile(summed, (config.L, 1)), np.tile(error, (config.L, 1))
        elif config.softmax:
            weight = np.exp(r.S[t] - r.S[t].max())[:, None]
            gap = r.S[t].max() - r.S[t] + 2 * self.score_error[t].max()
            exponent = self.score_error[t] + self.u * gap + UNDERFLOW
            relative = self._softmax_factor(exponent, exponent.max())[:, None]
            summed = _corner_means(weight, E, t, counts, config.T)
            error = _corner_means(weight, (relative + gamma * (1 + relative)) * E, t, counts, config.T)
        else:
            weight, off = np.abs(r.S[t])[:, None], self.score_error[t][:, None]
            summed = _corner_sums(weight * E, t, counts, config.T)
            error = _corner_sums((off + gamma * (weight + off)) * E, t, counts, config.T)
        if config.softmax:  # each weight may lose eta in exp, in the sum that it is divided by, and in the division
            error = error + 3 * n * UNDERFLOW * E.max(0)
        if np.any(added):
            summed = summed + added
            error = error + self.u * (summed + error) + UNDERFLOW
        mixed, error = E[t] + summed, error + below
        return mixed, error + self.u * (mixed + error) + UNDERFLOW * self.used

    def _softmax_factor(self, exponent: np.ndarray, largest: Any) -> np.ndarray:
        """Relative error of softmax weights whose exponents are off by at most `exponent`."""
        count = self.r.config.n_positions + EXP_AND_DIVIDE
        off = exponent + largest
        factor = np.expm1(off) * (1 + self.gamma(count)) + self.gamma(count)
        return np.where(off <= LARGEST_EXPONENT_ERROR, factor, np.inf)

    def _score_error(self) -> Float[np.ndarray, "vocab vocab"]:
        r = self.r
        E, none = np.abs(r.E), np.zeros_like(r.E)
        q, k = np.abs(r.E @ r.W_Q), np.abs(r.E @ r.W_K)
        dq, dk = self.product(E, none, r.W_Q), self.product(E, none, r.W_K)
        terms = ((q + dq) != 0).astype(float) @ ((k + dk) != 0).T.astype(float)
        size = (q + dq) @ (k + dk).T
        raw = dq @ k.T + (q + dq) @ dk.T + self.gamma(terms + 3) * size + 2 * terms * UNDERFLOW
        return raw / r.config.d**0.5 + UNDERFLOW * (terms > 0)


def _corner_means(
    weight: Float[np.ndarray, "vocab 1"], f: Float[np.ndarray, "vocab d"], t: int, counts: np.ndarray, T: int
) -> Float[np.ndarray, "count d"]:
    """Largest weighted mean of f over the positions of a sequence: at a corner, all other positions hold one token."""
    fixed, total = counts * (weight * f)[t], counts * weight[t]
    if len(weight) > T:
        fixed, total = fixed + (weight * f)[T], total + weight[T]
    rest = (len(counts) - counts)[:, :, None]  # [count, 1, 1]
    return ((fixed[:, None] + rest * (weight * f)[:T]) / (total[:, None] + rest * weight[:T])).max(1)


def _corner_sums(f: Float[np.ndarray, "vocab d"], t: int, counts: np.ndarray, T: int) -> Float[np.ndarray, "count d"]:
    fixed = counts * f[t] + (f[T] if len(f) > T else 0.0)
    return fixed + (len(counts) - counts) * f[:T].max(0)


class RunningError:
    """Evaluates a float64 copy of a model, with bounds for arithmetic of unit roundoff `u`."""

    def __init__(self, model: CountingTransformer, u: float) -> None:
        self.exact = CountingTransformer(model.config.replace(dtype="float64"), weights=model.state_dict())
        self.u = u

    @torch.no_grad()
    def __call__(
        self, tokens: Int[Tensor, "batch pos"]
    ) -> tuple[Float[Tensor, "batch pos class"], Float[Tensor, "batch pos class"]]:
        """Logits, and how far the running model's may be from them."""
        x = self.exact.W_E[self.exact.with_bos(tokens)]
        dx = torch.zeros_like(x)
        for block in self.exact.blocks:
            assert isinstance(block, Block)
            x, dx = self._feed_forward(block.mlp, *self._mix(block.attn, x, dx))
        L = self.exact.config.L
        return x[:, -L:], dx[:, -L:]

    def _gamma(self, n: int) -> float:
        return n * self.u / (1 - n * self.u)

    def _product(self, x: Tensor, dx: Tensor, w: Tensor, dw: Tensor, bias: Tensor | None = None) -> Tensor:
        """Error of x @ w + bias."""
        n = x.shape[-1] + 1
        size = x.abs() + dx
        total = size @ (w.abs() + dw) + (0.0 if bias is None else bias.abs())
        error = dx @ w.abs() + size @ dw + self._gamma(n) * total + 2 * n * UNDERFLOW
        return _within(total, error)

    def _mix(self, mixer: Mixer, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(mixer, ConstantMixer):
            scores = mixer.A.expand(len(x), -1, -1)
            d_scores = torch.zeros_like(scores)
        else:
            assert isinstance(mixer, DotProductMixer), "of other mixers the errors are not known"
            q, k = x @ mixer.W_Q, (x @ mixer.W_K).transpose(1, 2)
            exact = torch.zeros_like(mixer.W_Q)
            dq = self._product(x, dx, mixer.W_Q, exact)
            dk = self._product(x, dx, mixer.W_K, exact).transpose(1, 2)
            scale = x.shape[-1] ** 0.5
            scores = q @ k / scale
            d_scores = self._product(q, dq, k, dk) / scale
            d_scores = d_scores + self._gamma(3) * (scores.abs() + d_scores) + UNDERFLOW
        pattern, d_pattern = self._softmax(scores, d_scores) if mixer.softmax else (scores, d_scores)
        z, dz = pattern @ x, self._product(pattern, d_pattern, x, dx)
        mixed, error = x + z, dx + dz
        size = x.abs() + z.abs() + error
        return mixed, _within(size, error + self.u * size + UNDERFLOW)

    def _softmax(self, scores: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        pattern = scores.softmax(-1)
        gap = scores.amax(-1, keepdim=True) - scores + 2 * error.amax(-1, keepdim=True)
        exponent = error + self.u * gap + UNDERFLOW
        roundings = self._gamma(scores.shape[-1] + EXP_AND_DIVIDE)
        off = exponent + exponent.amax(-1, keepdim=True)
        bound = pattern * (torch.expm1(off) * (1 + roundings) + roundings) + 3 * UNDERFLOW
        return pattern, torch.where(off <= LARGEST_EXPONENT_ERROR, bound, torch.inf)

    def _feed_forward(self, mlp: FeedForward, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        pre = x @ mlp.W_in + mlp.b_in
        d_pre = self._product(x, dx, mlp.W_in, torch.zeros_like(mlp.W_in), mlp.b_in)
        hidden, error = pre.relu(), torch.where(pre + 3 * d_pre <= 0, 0.0, d_pre)  # also if `pre` itself is rounded
        out = hidden @ mlp.W_out + mlp.b_out
        return out, self._product(hidden, error, mlp.W_out, torch.zeros_like(mlp.W_out), mlp.b_out)


def _within(size: Tensor, error: Tensor) -> Tensor:
    """The error where terms of this total size are in the ordinary range; infinite elsewhere, also for NaN."""
    return torch.where(size < LIMIT, error.nan_to_num(nan=torch.inf), torch.inf)
