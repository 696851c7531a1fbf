"""A standard transformer that counts: pre-norm, heads, GELU, residual MLPs, final norm, unembedding.

Its mechanism is known: the mixer of each block, fixed before training, limits what attention can do. The residual
around the MLP and the final norm can be left out, for the last rungs of the ladder. The mixers are:

    free      queries, keys, values and outputs are learned
    uniform   the queries are zero: no weight depends on the query, so only an inventory can count
    near      a position sees itself and the one before it: it can mix, but not count
    peers     the mean over equal tokens, whose states are equal: it can pass a count on, but not make one
    relation  equal tokens (and `$`) get weight, and all write the same vector: the count does not depend on the token
    gated     the same, but the vector is turned by an angle for each token: the token is needed to read the count
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from counting_interp.models import task
from counting_interp.models.adapter import AdapterSpec

MIXERS = ("free", "uniform", "near", "peers", "relation", "gated")


class StandardBlock(nn.Module):
    def __init__(self, sizes: AdapterSpec, mixer: str, residual: bool) -> None:
        super().__init__()
        self.residual = residual
        d, self.mixer, self.heads = sizes.d, mixer, sizes.n_heads
        self.prefix, self.causal, self.T = sizes.prefix, sizes.causal, sizes.T
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn: Any = nn.Module()
        if mixer not in ("relation", "gated"):
            self.value, self.out = nn.Linear(d, d), nn.Linear(d, d)
        if mixer in ("free", "uniform", "near"):
            self.key, self.query = nn.Linear(d, d), nn.Linear(d, d)
            if mixer == "uniform":
                for parameter in self.query.parameters():
                    nn.init.zeros_(parameter).requires_grad_(False)
        elif mixer != "peers":
            self.direction = nn.Parameter(torch.randn(2, d) / math.sqrt(d))
        self.attn.hook_q, self.hook_attn_out = HookPoint(), HookPoint()
        self.attn.hook_pattern = HookPoint()
        self.mlp_in, self.mlp_out = nn.Linear(d, sizes.p), nn.Linear(sizes.p, d)

    def forward(self, x: Float[Tensor, "b pos d"], tokens: Int[Tensor, "b pos"]) -> Float[Tensor, "b pos d"]:
        x = x + self.hook_attn_out(self._mix(self.ln1(x), tokens))
        out = self.mlp_out(nn.functional.gelu(self.mlp_in(self.ln2(x))))
        return x + out if self.residual else out

    def _mix(self, x: Tensor, tokens: Tensor) -> Tensor:
        length = x.shape[1]
        seen = torch.ones(length, length, dtype=torch.bool)
        if self.causal:
            seen = seen.tril()
        if self.mixer == "near":
            seen = seen.tril().triu(-1)
        if self.mixer in ("relation", "gated", "peers"):
            return self._compare(x, tokens, seen)
        q, k, v = (project(x).unflatten(-1, (self.heads, -1)) for project in (self.query, self.key, self.value))
        scores = torch.einsum("bqhe,bkhe->bhqk", self.attn.hook_q(q), k) / math.sqrt(q.shape[-1])
        pattern = self.attn.hook_pattern(scores.masked_fill(~seen, -torch.inf).softmax(-1))
        return self.out(torch.einsum("bhqk,bkhe->bqhe", pattern, v).flatten(-2))

    def _compare(self, x: Tensor, tokens: Tensor, seen: Tensor) -> Tensor:
        """The mixers that compare tokens by hand.

        `peers` averages the values of equal tokens. The others write count / (count + 1) with `$`, or the count over 4
        without it, along a learned direction.
        """
        names = nn.functional.one_hot(tokens, self.T + self.prefix).float()
        asked = self.attn.hook_q(names[:, :, None])[:, :, 0]
        equal = torch.einsum("bqv,bkv->bqk", asked, names) * seen
        count = equal.sum(-1)
        if self.mixer == "peers":
            return self.out(equal @ self.value(x) / count[..., None].clamp_min(1))
        amount = (count / (count + 1) if self.prefix else count / 4)[..., None]
        if self.mixer == "relation":
            return amount * self.direction[0]
        angle = 2 * math.pi * tokens[..., None] / self.T
        centred = amount - (0.7 if self.prefix else 0.75)
        return centred * (angle.cos() * self.direction[0] + angle.sin() * self.direction[1])


class StandardCounter(HookedRootModule):
    """Sequences in, logits of the counts 1..L out; see `counting_interp.models.protocol.CountingModel`."""

    def __init__(
        self,
        *,
        T: int,
        L: int,
        d: int = 32,
        p: int = 64,
        mixers: Sequence[str] = ("free",),
        n_heads: int = 4,
        bos: bool = True,
        causal: bool = False,
        positions: bool = False,
        residual: bool = True,
        final_norm: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = AdapterSpec(
            "standard", T, L, d, p, len(mixers), n_heads, L + bos, int(bos), True, causal, extras=("a standard block",)
        )
        self.metadata: dict[str, Any] = {"training": {"sampler": "paper"}}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embed = nn.Embedding(T + bos, d)
            self.W_pos = nn.Parameter(torch.randn(L + bos, d) * (0.5 if positions else 0.0), requires_grad=positions)
            self.blocks: Any = nn.ModuleList(StandardBlock(self.config, mixer, residual) for mixer in mixers)
            self.ln_final: nn.Module = nn.LayerNorm(d) if final_norm else nn.Identity()
            self.unembed = nn.Linear(d, L)
        self.eval()
        self.setup()

    @property
    def device(self) -> torch.device:
        return self.embed.weight.device

    def forward(self, tokens: Int[Tensor, "b pos"]) -> Float[Tensor, "b pos count"]:
        if self.config.prefix:
            tokens = torch.cat([tokens.new_full((len(tokens), 1), self.config.T), tokens], 1)
        x = self.embed(tokens) + self.W_pos
        for block in self.blocks:
            x = block(x, tokens)
        return self.unembed(self.ln_final(x))[:, self.config.prefix :]

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        return self(tokens.reshape(-1, self.config.L)).argmax(-1).reshape(tokens.shape) + 1

    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        return task.running_count(tokens) if self.config.causal else task.histogram(tokens)

    def accuracy(self, n: int = 1000, seed: int = 0) -> float:
        tokens = task.sample("paper", n, T=self.config.T, L=self.config.L, generator=seed)
        return float((self.predict(tokens) == self.truth(tokens)).float().mean())
