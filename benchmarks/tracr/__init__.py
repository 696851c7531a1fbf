"""Models of known mechanism by others: programs compiled to weights by Tracr (Lindner et al., 2023), run in torch.

They have no norms, ReLU, a residual around attention and MLP, and a start token. `compile.py` wrote the weights; see
NOTICE.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from counting_interp.models import Adapter

FOLDER = Path(__file__).parent
PROGRAMS = {"histogram": "RC", "histogram-causal": "RC", "inventory": "IC"}  # the mechanism of each program


class Attention(nn.Module):
    def __init__(self, weights: dict[str, Tensor], heads: int, causal: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (
            _linear(weights, f"attn/{x}") for x in ["query", "key", "value", "linear"]
        )
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (project(x).unflatten(-1, (self.heads, -1)) for project in (self.query, self.key, self.value))
        scores = torch.einsum("bqhe,bkhe->bhqk", q, k) / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).bool().tril(), -1e30)
        return self.out(torch.einsum("bhqk,bkhe->bqhe", scores.softmax(-1), v).flatten(-2))


class Block(nn.Module):
    def __init__(self, weights: dict[str, Tensor], heads: int, causal: bool) -> None:
        super().__init__()
        self.attn = Attention(weights, heads, causal)
        self.mlp = nn.Sequential(_linear(weights, "mlp/linear_1"), nn.ReLU(), _linear(weights, "mlp/linear_2"))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x)


class Compiled(nn.Module):
    """A compiled program. The logits of the counts 1..L are coordinates of the residual stream."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        super().__init__()
        self.tokens, self.positions = (
            nn.Embedding.from_pretrained(torch.tensor(arrays[f"{name}_embed/embeddings"])) for name in ("token", "pos")
        )
        self.register_buffer("answer", torch.tensor(arrays["answer"]))
        blocks = []
        for layer in range(int(arrays["layers"])):
            start = f"transformer/layer_{layer}/"
            weights = {k.removeprefix(start): torch.tensor(w) for k, w in arrays.items() if k.startswith(start)}
            blocks.append(Block(weights, int(arrays["heads"]), bool(arrays["causal"])))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.blocks(self.tokens(tokens) + self.positions.weight[: tokens.shape[-1]])[..., self.answer]


def load(name: str) -> Adapter:
    """A program of PROGRAMS in an Adapter, ready for probes."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    T, L = int(arrays["T"]), int(arrays["L"])
    mixer = None if int(arrays["layers"]) == 1 else "blocks.{layer}.attn"  # only the first mixer writes anything
    return Adapter(Compiled(arrays), T=T, L=L, prefix=1, mixer=mixer, name=f"tracr {name}")


def _linear(weights: dict[str, Tensor], name: str) -> nn.Linear:
    w, b = weights[f"{name}/w"], weights[f"{name}/b"]
    linear = nn.Linear(*w.shape)
    linear.load_state_dict({"weight": w.T, "bias": b})
    return linear
