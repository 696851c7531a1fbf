"""The two halves of a block: a mixer across positions and a feed-forward layer at each position.

    mixed_l = x_l + sum_m A_lm x_m
    out_l   = ReLU(mixed_l W_in + b_in) W_out + b_out

The mixer is a constant matrix A (`lin`) or A = x W_Q W_K^T x^T / sqrt(d) (`dot` and `bos`), row-wise through a softmax
in the `+sftm` variants. Those are the paper's blocks: values are the identity, one head, no positions, no layer norm.
Beyond them, with h heads, values and norms,

    mixed_l = x_l + sum_h sum_m A^h_lm n(x_m) W_V^h W_O^h,   A^h = n(x) W_Q^h (n(x) W_K^h)^T / sqrt(d_head)
    out_l   = activation(n(mixed_l) W_in + b_in) W_out + b_out

and in a causal block A^h_lm = 0 for m > l. Hook points carry TransformerLens' names and axes. `config` declares the
parameters of each module.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from counting_interp.models.config import CountingConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": nn.functional.relu, "gelu": nn.functional.gelu}
EPSILON = 1e-5  # of a layer norm, as in torch


def declare(module: nn.Module, config: CountingConfig, name: str) -> None:
    """Give `module` the parameters that `config` declares under `name`, uninitialised."""
    for parameter in config.parameters:
        if parameter.name.startswith(f"{name}."):
            weight = nn.Parameter(torch.empty(parameter.shape), requires_grad=parameter.trained)
            module.register_parameter(parameter.name.removeprefix(f"{name}."), weight)


class Mixer(nn.Module):
    """The part that all mixers share: from scores to pattern to the weighted sum of the values."""

    W_V: Tensor  # [head, d_model, d_head]
    W_O: Tensor  # [head, d_head, d_model]

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        declare(self, config, "blocks.0.attn")
        self.softmax = config.softmax
        self.causal = config.causal
        self.values = config.values
        self.n_heads, self.d_model, self.d_head = config.n_heads, config.d, config.d_head
        self.hook_v = HookPoint()  # [batch, pos, head, d_head]; d_model instead of d_head without learned values
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key]
        self.hook_pattern = HookPoint()  # [batch, head, query, key]; equal to the scores without softmax
        self.hook_z = HookPoint()  # [batch, pos, head, d_head], or d_model as the values

    def __getattr__(self, name: str) -> Tensor | nn.Module:
        """W_V and W_O are the identity of every head where they are not learned."""
        if name in ("W_V", "W_O") and name not in self._parameters:
            like = next(iter(self._parameters.values()))
            assert like is not None
            return torch.eye(self.d_model, dtype=like.dtype, device=like.device).expand(self.n_heads, -1, -1)
        return super().__getattr__(name)

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        value = self.hook_v(self.value(x))
        scores = self.hook_attn_scores(self.masked(self.scores(x)))
        pattern = self.hook_pattern(scores.softmax(-1) if self.softmax else scores.clone())
        z = self.hook_z(torch.einsum("bhqk,bkhd->bqhd", pattern, value))
        return torch.einsum("bqhe,hed->bqd", z, self.W_O) if self.values else z.sum(2)

    def masked(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        """Scores of a causal block without those of later positions; other scores unchanged."""
        if not self.causal:
            return scores
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(later, -torch.inf if self.softmax else 0.0)

    def value(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos head d_value"]:
        if self.values:
            return torch.einsum("bpd,hde->bphe", x, self.W_V)
        return repeat(x, "batch pos d -> batch pos head d", head=self.n_heads).clone()


class ConstantMixer(Mixer):
    """`lin`: each head has one L x L matrix for all sequences."""

    A: Tensor  # [query, key], or [head, query, key]

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        return self.A.expand(x.shape[0], self.n_heads, -1, -1).clone()


class DotProductMixer(Mixer):
    """`dot` and `bos`: every position is compared with every other."""

    W_Q: Tensor  # [d_model, d_head], or [head, d_model, d_head]
    W_K: Tensor

    def __init__(self, config: CountingConfig) -> None:
        super().__init__(config)
        self.hook_q = HookPoint()  # [batch, pos, head, d_head]
        self.hook_k = HookPoint()  # [batch, pos, head, d_head]

    def scores(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch head query key"]:
        q, k = self.hook_q(self._project(x, self.W_Q)), self.hook_k(self._project(x, self.W_K))
        return torch.einsum("bqhd,bkhd->bhqk", q, k) / self.d_head**0.5

    def _project(self, x: Float[Tensor, "batch pos d_model"], W: Tensor) -> Float[Tensor, "batch pos head d_head"]:
        return (x @ W).unsqueeze(2) if self.n_heads == 1 else torch.einsum("bpd,hde->bphe", x, W)


MIXERS: dict[str, type[Mixer]] = {"lin": ConstantMixer, "dot": DotProductMixer, "bos": DotProductMixer}


class FeedForward(nn.Module):
    """One hidden layer, the same at every position, without a residual around it."""

    W_in: Tensor  # [d_model, d_mlp]
    b_in: Tensor
    W_out: Tensor  # [d_mlp, out]
    b_out: Tensor

    def __init__(self, config: CountingConfig, layer: int) -> None:
        super().__init__()
        declare(self, config, f"blocks.{layer}.mlp")
        self.activation = ACTIVATIONS[config.activation]
        self.hook_pre = HookPoint()  # [batch, pos, d_mlp]
        self.hook_post = HookPoint()  # [batch, pos, d_mlp]

    def forward(self, mixed: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch out"]:
        hidden = self.hook_post(self.activation(self.hook_pre(mixed @ self.W_in + self.b_in)))
        return hidden @ self.W_out + self.b_out


class LayerNorm(nn.Module):
    """Mean zero, variance one, then a gain and a bias."""

    w: Tensor  # [d_model]
    b: Tensor

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        declare(self, config, "blocks.0.ln1")
        self.hook_scale = HookPoint()  # [batch, pos, 1]
        self.hook_normalized = HookPoint()  # [batch, pos, d_model]

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        centred = x - x.mean(-1, keepdim=True)
        scale = self.hook_scale((centred.square().mean(-1, keepdim=True) + EPSILON).sqrt())
        return self.hook_normalized(centred / scale * self.w + self.b)


class Block(nn.Module):
    """Mix, add the residual, transform."""

    def __init__(self, config: CountingConfig, layer: int) -> None:
        super().__init__()
        self.ln1: LayerNorm | nn.Identity = LayerNorm(config) if config.layer_norm else nn.Identity()
        self.attn = MIXERS[config.mixing](config)
        self.ln2: LayerNorm | nn.Identity = LayerNorm(config) if config.layer_norm else nn.Identity()
        self.mlp = FeedForward(config, layer)
        self.hook_resid_pre = HookPoint()  # [batch, pos, d_model]
        self.hook_attn_out = HookPoint()  # [batch, pos, d_model]
        self.hook_resid_mid = HookPoint()  # [batch, pos, d_model]; the paper calls it the mixed token
        self.hook_mlp_out = HookPoint()  # [batch, pos, d_model], or [batch, pos, class] in the last block

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos out"]:
        resid_pre = self.hook_resid_pre(x)
        mixed = self.hook_resid_mid(resid_pre + self.hook_attn_out(self.attn(self.ln1(resid_pre))))
        return self.hook_mlp_out(self.mlp(self.ln2(mixed)))
