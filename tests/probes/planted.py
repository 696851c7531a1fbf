"""Models whose answers are known, for the tests of probes."""

from __future__ import annotations

import torch
from torch import Tensor

from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import construct


def built(name: str, **options) -> CountingTransformer:
    """A construction in float64, so that closed forms hold to rounding."""
    return construct(name, dtype="float64", **options)


def changed(model: CountingTransformer, **weights: Tensor) -> CountingTransformer:
    """A copy with some weights of its first block, or its embeddings, replaced: `W_E=..., W_in=..., b_out=...`."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in weights.items():
        key = next(key for key in state if key.endswith(f".{name}"))
        state[key] = value
    return CountingTransformer(model.config, weights=state)


def other_basis(model: CountingTransformer, seed: int = 0, *, rotation: bool = False) -> CountingTransformer:
    """The same function in another basis of the embedding space: E -> E M, and W_Q, W_K, W_in -> M^-1 W."""
    d = model.config.d
    M = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    M = torch.linalg.qr(M).Q if rotation else torch.linalg.qr(M).Q @ torch.diag(torch.linspace(0.5, 2, d).double()) @ M
    inverse = torch.linalg.inv(M)
    state = model.state_dict()
    weights = {"W_E": state["embed.W_E"] @ M, "W_in": inverse @ state["blocks.0.mlp.W_in"]}
    if model.config.mixing != "lin":
        weights |= {name: inverse @ state[f"blocks.0.attn.{name}"] for name in ("W_Q", "W_K")}
    return changed(model, **weights)


def constant_model(count: int, variant: str = "dot", **sizes) -> CountingTransformer:
    """A model that answers `count` whatever it is asked."""
    from tests.helpers import small_model

    model = small_model(variant, **sizes)
    state = model.state_dict()
    bias = torch.zeros_like(state["blocks.0.mlp.b_out"])
    bias[count - model.config.first_count] = 1
    return changed(model, W_out=torch.zeros_like(state["blocks.0.mlp.W_out"]), b_out=bias)
