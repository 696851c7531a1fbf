"""The two halves of a block: a mixer that looks across positions and a feed-forward layer that looks at one.

    mixed_l = x_l + sum_m A_lm x_m          (values are the identity, one head, no positions, no layer norm)
    out_l   = ReLU(mixed_l W_in + b_in) W_out + b_out

The mixer is a constant matrix A (`lin`) or A = x W_Q W_K^T x^T / sqrt(d) (`dot` and `bos`), row-wise through a softmax
in the `+sftm` variants. Hook points carry TransformerLens' names and axes; the head axis has size one.
"""

from __future__ import annotations

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from models.config import CountingConfig


class Mixer(nn.Module):
    """What every variant shares: from scores to pattern to the weighted sum of the inputs themselves."""

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        self.softmax = config.softmax
        self.hook_v = HookPoint()  # [batch, pos, head, d_model]
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key]
        self.hook_pattern = HookPoint()  # [batch, head, query, key]; equal to the scores without softmax
        self.hook_z = HookPoint()  # [batch, pos, head, d_model]

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        value = self.hook_v(rearrange(x, "batch pos d -> batch pos 1 d").clone())
        scores = self.hook_attn_scores(self.scores(x))
        pattern = self.hook_pattern(scores.softmax(-1) if self.softmax else scores.clone())
        z = self.hook_z(torch.einsum("bhqk,bkhd->bqhd", pattern, value))
        return rearrange(z, "batch pos 1 d -> batch pos d").clone()


class ConstantMixer(Mixer):
    """`lin`: the same L x L matrix for every sequence."""

    def __init__(self, config: CountingConfig) -> None:
        super().__init__(config)
        self.A = nn.Parameter(torch.empty(config.L, config.L))  # [query, key]

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        return repeat(self.A, "query key -> batch 1 query key", batch=x.shape[0]).clone()


class DotProductMixer(Mixer):
    """`dot` and `bos`: every position compares itself with every other one."""

    def __init__(self, config: CountingConfig) -> None:
        super().__init__(config)
        self.W_Q = nn.Parameter(torch.empty(config.d, config.d))  # [d_model, d_head], d_head = d
        self.W_K = nn.Parameter(torch.empty(config.d, config.d))
        self.hook_q = HookPoint()  # [batch, pos, head, d_head]
        self.hook_k = HookPoint()  # [batch, pos, head, d_head]

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        q = self.hook_q(rearrange(x @ self.W_Q, "batch pos d -> batch pos 1 d"))
        k = self.hook_k(rearrange(x @ self.W_K, "batch pos d -> batch pos 1 d"))
        return torch.einsum("bqhd,bkhd->bhqk", q, k) / x.shape[-1] ** 0.5


class FeedForward(nn.Module):
    """One hidden layer with ReLU, the same at every position, no residual around it."""

    def __init__(self, config: CountingConfig, outputs: int) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.empty(config.d, config.p))  # [d_model, d_mlp]
        self.b_in = nn.Parameter(torch.empty(config.p))
        self.W_out = nn.Parameter(torch.empty(config.p, outputs))  # [d_mlp, out]
        self.b_out = nn.Parameter(torch.empty(outputs))
        self.hook_pre = HookPoint()  # [batch, pos, d_mlp]
        self.hook_post = HookPoint()  # [batch, pos, d_mlp]

    def forward(self, mixed: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch out"]:
        hidden = self.hook_post(self.hook_pre(mixed @ self.W_in + self.b_in).relu())
        return hidden @ self.W_out + self.b_out


class Block(nn.Module):
    """Mix, add the residual, transform."""

    def __init__(self, config: CountingConfig, outputs: int) -> None:
        super().__init__()
        self.attn = ConstantMixer(config) if config.mixing == "lin" else DotProductMixer(config)
        self.mlp = FeedForward(config, outputs)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model]
        self.hook_attn_out = HookPoint()  # [batch, pos, d_model]
        self.hook_resid_mid = HookPoint()  # [batch, pos, d_model]: the paper's mixed token
        self.hook_mlp_out = HookPoint()  # [batch, pos, d_model], or [batch, pos, class] in the last block

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos out"]:
        resid_pre = self.hook_resid_pre(x)
        mixed = self.hook_resid_mid(resid_pre + self.hook_attn_out(self.attn(resid_pre)))
        return self.hook_mlp_out(self.mlp(mixed))
