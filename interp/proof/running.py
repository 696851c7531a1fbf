"""Logits with a bound on their rounding error, sequence by sequence: running error analysis through any depth.

`rounding` bounds the error over all sequences at once and knows one-layer models only. Here the errors of every
intermediate value are carried along with it, by the same rules, for the sequences that are actually run. Where the
terms of a sum may leave the ordinary range of `arithmetic`, the error is infinite and stays so.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.interp.proof.arithmetic import EXP_AND_DIVIDE, LIMIT, UNDERFLOW
from counting_interp.interp.proof.rounding import LARGEST_EXPONENT_ERROR
from counting_interp.models.blocks import Block, ConstantMixer, DotProductMixer, FeedForward
from counting_interp.models.transformer import CountingTransformer


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

    def _mix(self, mixer: ConstantMixer | DotProductMixer, x: Tensor, dx: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(mixer, ConstantMixer):
            scores = mixer.A.expand(len(x), -1, -1)
            d_scores = torch.zeros_like(scores)
        else:
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
