"""Changes of the weights that change no answer: a verdict about a model must not depend on them.

Exact in exact arithmetic, for one and two layers:

    basis of the stream     x -> x R for any invertible R, and W -> R^-1 W for all weights that read it. A layer norm
                            singles out a basis, up to permutations
    basis of the queries    W_Q -> W_Q M, W_K -> W_K M^-T
    basis of the values     W_V -> W_V M, W_O -> M^-1 W_O
    heads                   their order
    hidden units            their order, and with a ReLU their positive scale
    scores of `lin+sftm`    a constant per row of A, which the softmax removes

Up to a renaming, which the task does not see:

    tokens                  `rename_tokens`
    positions               `rename_positions`, of `lin` and learned positions that are not causal

Rescaling single tokens is not among them: attention and values may compensate it in a trained model, but only nearly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.transformer import CountingTransformer

Weights = dict[str, Tensor]
V = TypeVar("V")


def random_symmetry(model: CountingTransformer, seed: int, *, rename: bool = False) -> CountingTransformer:
    """A model that computes the same function with other weights.

    Args:
        seed: fixes the change.
        rename: also permute tokens and, where the model reads them, positions. The new model gives permuted tokens the
            counts that the old one gives `tokens`. On the histogram task both are correct equally often.
    """
    rng, config, weights = torch.Generator().manual_seed(seed), model.config, _in_double(model)

    def per_block(draw: Callable[[], V]) -> list[V]:
        return [draw() for _ in range(config.n_layers)]

    def uniform(size: int) -> Tensor:
        return torch.rand(size, generator=rng, dtype=torch.float64)

    _change_stream_basis(config, weights, per_block(lambda: _random_basis(config, rng)))
    if config.mixing == "lin":
        if config.softmax:
            for i, shift in enumerate(per_block(lambda: torch.randn(config.L, generator=rng, dtype=torch.float64))):
                weights[f"blocks.{i}.attn.A"] = weights[f"blocks.{i}.attn.A"] + shift[:, None]
    else:
        stretches = per_block(lambda: uniform(config.d_head) + 0.5)
        for i, stretch in enumerate(stretches):
            _change_product_basis(weights, f"blocks.{i}.attn.", random_rotation(config.d_head, rng) * stretch)
    if config.values:
        for i, rotation in enumerate(per_block(lambda: random_rotation(config.d_head, rng))):
            value, output = f"blocks.{i}.attn.W_V", f"blocks.{i}.attn.W_O"
            weights[value] = weights[value] @ (2.0 * rotation)
            weights[output] = torch.linalg.solve(2.0 * rotation, weights[output])
    if config.n_heads > 1:
        orders = per_block(lambda: torch.randperm(config.n_heads, generator=rng))
        for parameter in config.parameters:
            if parameter.axes[0] == "head":
                weights[parameter.name] = weights[parameter.name][orders[int(parameter.name.split(".")[1])]]
    orders = per_block(lambda: torch.randperm(config.p, generator=rng))
    scales = per_block(lambda: uniform(config.p) * 3 + 0.25)
    for i, (order, scale) in enumerate(zip(orders, scales, strict=True)):
        _permute_hidden(weights, f"blocks.{i}.mlp.", order, scale if config.activation == "relu" else torch.ones(1))
    if rename:
        _permute_tokens(config, weights, torch.randperm(config.T, generator=rng))
        if config.reads_positions and not config.causal:
            _permute_positions(config, weights, torch.randperm(config.L, generator=rng))
    return _rebuilt(model, weights)


def rename_tokens(model: CountingTransformer, permutation: Int[Tensor, "token"]) -> CountingTransformer:
    """`rename_tokens(model, permutation)(permutation[tokens])` equals `model(tokens)`. `$` keeps its row."""
    weights = _in_double(model)
    _permute_tokens(model.config, weights, permutation)
    return _rebuilt(model, weights)


def rename_positions(model: CountingTransformer, permutation: Int[Tensor, "pos"]) -> CountingTransformer:
    """Position l of the old model is position `permutation[l]` of the new one, in the sequence and in the answer."""
    weights = _in_double(model)
    _permute_positions(model.config, weights, permutation)
    return _rebuilt(model, weights)


def random_rotation(d: int, rng: torch.Generator) -> Float[Tensor, "d_model d_model"]:
    """A uniformly distributed orthogonal matrix."""
    q, r = torch.linalg.qr(torch.randn(d, d, generator=rng, dtype=torch.float64))
    return q * r.diagonal().sign()


def _random_basis(config: CountingConfig, rng: torch.Generator) -> Float[Tensor, "d_model d_model"]:
    if config.layer_norm:
        return torch.eye(config.d, dtype=torch.float64)[torch.randperm(config.d, generator=rng)]
    scale = 2.0 ** (2 * float(torch.rand((), generator=rng)) - 1)
    return scale * random_rotation(config.d, rng)


def _change_stream_basis(config: CountingConfig, weights: Weights, bases: list[Tensor]) -> None:
    """Multiply the stream of block i by `bases[i]`."""
    for parameter in config.parameters:
        name = parameter.name.split(".")
        block = int(name[1]) if name[0] == "blocks" else 0
        if len(parameter.axes) > 1 and parameter.axes[-2] == "d_model":
            weights[parameter.name] = torch.linalg.solve(bases[block], weights[parameter.name])
        elif parameter.axes[-1] == "d_model":  # a feed-forward layer writes to the stream of the next block
            weights[parameter.name] = weights[parameter.name] @ bases[block + name.count("mlp")]


def _change_product_basis(weights: Weights, attn: str, basis: Float[Tensor, "d_head d_head"]) -> None:
    """Change the basis in which queries meet keys; their products stay."""
    weights[attn + "W_Q"] = weights[attn + "W_Q"] @ basis
    weights[attn + "W_K"] = torch.linalg.solve(basis, weights[attn + "W_K"].mT).mT


def _permute_hidden(weights: Weights, mlp: str, order: Int[Tensor, "d_mlp"], scale: Tensor) -> None:
    weights[mlp + "W_in"] = weights[mlp + "W_in"][:, order] * scale
    weights[mlp + "b_in"] = weights[mlp + "b_in"][order] * scale
    weights[mlp + "W_out"] = weights[mlp + "W_out"][order] / scale[:, None]


def _permute_tokens(config: CountingConfig, weights: Weights, permutation: Int[Tensor, "token"]) -> None:
    table = weights["embed.W_E"].clone()
    table[permutation] = weights["embed.W_E"][: config.T]
    weights["embed.W_E"] = table


def _permute_positions(config: CountingConfig, weights: Weights, permutation: Int[Tensor, "pos"]) -> None:
    for parameter in config.parameters:
        old, new = weights[parameter.name], weights[parameter.name].clone()
        if parameter.axes[-1] == "key":
            new[..., permutation[:, None], permutation] = old
        elif parameter.axes[0] == "pos":  # the prefix `$` stays first
            new[permutation + config.prefix] = old[-config.L :]
        weights[parameter.name] = new


def _in_double(model: CountingTransformer) -> Weights:
    """The weights in float64: one rounding at the end instead of one per step."""
    return {name: value.detach().double() for name, value in model.state_dict().items()}


def _rebuilt(model: CountingTransformer, weights: Weights) -> CountingTransformer:
    metadata = {key: value for key, value in model.metadata.items() if key != "sha256"}
    return CountingTransformer(model.config, weights, metadata)
