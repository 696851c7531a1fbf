"""A hand-built counter carried into a block with values, several heads and norms: other weights, the same function.

The mechanism of the new model is that of the old one by construction, so it is planted truth for blocks that no
construction was made for. A one-layer model of the paper with embeddings of dimension d becomes one with h heads of
dimension >= d, in a stream of h times that, whose first d coordinates are the old ones.

  - **Values.** W_V^0 = M and W_O^0 = M^-1 for some invertible M: head 0 writes what it looks at.
  - **Heads.** Head 0 has the old W_Q and W_K, times (d_head / d)^(1/4) each because scores are divided by sqrt(d_head).
    The others attend as they like and write nothing, W_O^h = 0.
  - **Norms.** Two coordinates hold K and -K, another one 0. K is so large that the norm of the stream is that of these
    two, up to a relative |x|^2 / 2 K^2; dividing by it, and multiplying by the gain w = sqrt(2 K^2 / d), undoes the
    scale. Subtracting the mean m puts -m in the empty coordinate, and whatever reads the stream with weights W reads
    that coordinate with -(the sum of W): -m sum(W) + m sum(W) = 0 undoes the mean. Values read zero from K and -K, so
    the stream keeps them as they are; that is why a norm needs learned values.

Everything is exact but the scale, which is as exact as float64 allows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from counting_interp.models.symmetries import random_rotation
from counting_interp.models.transformer import CountingTransformer

LARGE = 1e5  # K, in norms of the largest stream: what the scale loses and what rounding does are both near 1e-10


def carried(
    model: CountingTransformer, *, n_heads: int = 1, layer_norm: bool = False, seed: int = 0
) -> CountingTransformer:
    """`model`, of one layer and one of the paper's variants, as a block with learned values and `n_heads` heads, in
    float64.

    Args:
        seed: of the basis in which values are mixed, and of what the surplus heads attend to.
    """
    old = model.config
    if old.n_layers != 1 or not old.is_paper_block:
        raise ValueError(f"one-layer models of the paper can be carried over, got {old.name} of {old.n_layers} layers")
    needed = old.d + (3 if layer_norm else 0)
    d_head = max(old.d, math.ceil(needed / n_heads))
    config = old.replace(
        d=n_heads * d_head,
        values=True,
        n_heads=n_heads,
        layer_norm=layer_norm,
        dtype="float64",
        frozen_embeddings=False,
    )
    rng = torch.Generator().manual_seed(seed)
    source = {name: weight.double() for name, weight in model.state_dict().items()}
    weights = {one.name: torch.zeros(one.shape, dtype=torch.float64) for one in config.parameters}
    weights["embed.W_E"][:, : old.d] = source["embed.W_E"]
    weights["blocks.0.mlp.W_in"][: old.d] = source["blocks.0.mlp.W_in"]
    for name in ("mlp.b_in", "mlp.W_out", "mlp.b_out"):
        weights[f"blocks.0.{name}"] = source[f"blocks.0.{name}"]
    for name in ("A",) if old.mixing == "lin" else ("W_Q", "W_K"):
        heads = _as_heads(weights[f"blocks.0.attn.{name}"])
        heads[1:] = torch.randn(heads[1:].shape, generator=rng, dtype=torch.float64)
        if name == "A":
            heads[0] = source["blocks.0.attn.A"]
        else:
            heads[0, : old.d, : old.d] = (d_head / old.d) ** 0.25 * source[f"blocks.0.attn.{name}"]
    values, outputs = weights["blocks.0.attn.W_V"], weights["blocks.0.attn.W_O"]
    basis = 2 * random_rotation(old.d, rng)
    values[0, : old.d, : old.d], outputs[0, : old.d, : old.d] = basis, torch.linalg.inv(basis)
    values[1:, : old.d] = torch.randn(values[1:, : old.d].shape, generator=rng, dtype=torch.float64)
    if layer_norm:
        _undo_norms(weights, old.d, _largest_stream(model))
    metadata = {key: value for key, value in model.metadata.items() if key != "sha256"}
    return CountingTransformer(config, weights, metadata)


def _as_heads(weight: Tensor) -> Tensor:
    """A view with an axis for heads in front."""
    return weight if weight.ndim == 3 else weight[None]


def _largest_stream(model: CountingTransformer) -> float:
    """A bound on the norm of any mixed token: an embedding, and embeddings with the weights of a row."""
    config = model.config
    norms = model.W_E.detach().double().norm(dim=1)
    if config.softmax:
        weight = 1.0
    elif config.mixing == "lin":
        weight = float(model.mixing_matrix().detach().abs().sum(1).max())
    else:
        form = model.QK[0, 0].AB.detach().double() / config.d**0.5
        scores = model.W_E.detach().double() @ form @ model.W_E.detach().double().T
        weight = config.n_positions * float(scores.abs().max())
    return float(norms.max()) * (1 + weight)


def _undo_norms(weights: dict[str, Tensor], d: int, largest: float) -> None:
    """Coordinate d stays empty, d + 1 and d + 2 hold K and -K."""
    K = LARGE * largest
    weights["embed.W_E"][:, d + 1], weights["embed.W_E"][:, d + 2] = K, -K
    d_model = weights["embed.W_E"].shape[1]
    for norm in ("ln1", "ln2"):
        weights[f"blocks.0.{norm}.w"][:] = (2 * K**2 / d_model + 1e-5) ** 0.5
    for name, weight in weights.items():
        if name.endswith(("W_Q", "W_K", "W_V", "W_in")):  # [..., d_model, out]
            weight[..., d, :] = -weight.sum(-2)
