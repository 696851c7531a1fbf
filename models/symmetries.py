"""Changes of the weights that change no answer: a verdict about a model must not depend on them.

Exact in exact arithmetic, for one and two layers:

    change_basis       the stream that a block reads, by any invertible matrix (values are the identity, or learned, so
                       nothing singles out a basis): x -> x R, and W -> R^-1 W for all that read it. A layer norm
                       does single one out; what remains are permutations
    change_qk_basis    the space in which queries meet keys: W_Q -> W_Q M, W_K -> W_K M^-T
    change_ov_basis    the space in which learned values are mixed: W_V -> W_V M, W_O -> M^-1 W_O
    shuffle_heads      their order
    shuffle_hidden     order and positive scale of the hidden units, which a ReLU passes through; a GELU only the order
    shift_scores       `lin+sftm`: a constant per row of A, which the softmax takes away

Up to a renaming, which the task does not see:

    rename_tokens      token t of the old model is token permutation[t] of the new one
    rename_positions   `lin` and learned positions, not causal: position l of the old model is position permutation[l]
                       of the new one

Rescaling single tokens is not among them: attention and values may compensate it in a trained model, but only nearly.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.transformer import CountingTransformer


def random_symmetry(model: CountingTransformer, seed: int, *, rename: bool = False) -> CountingTransformer:
    """A model that computes the same function with other weights.

    Args:
        seed: fixes the change.
        rename: also permute tokens and, where there are any, positions. The new model gives `new[permuted tokens]`
            the counts that the old one gives `tokens`; on the histogram task both are right equally often.
    """
    rng = torch.Generator().manual_seed(seed)
    config = model.config
    blocks = range(config.n_layers)
    new = _in_precision(model, "float64")  # one rounding at the end instead of one per step
    new = change_basis(new, [_random_basis(config, rng) for _ in blocks])
    if config.mixing == "lin":
        if config.softmax:
            new = shift_scores(new, [torch.randn(config.L, generator=rng, dtype=torch.float64) for _ in blocks])
    else:
        stretch = [torch.rand(config.d_head, generator=rng, dtype=torch.float64) + 0.5 for _ in blocks]
        new = change_qk_basis(new, [random_rotation(config.d_head, rng) * column for column in stretch])
    if config.values:
        new = change_ov_basis(new, [2.0 * random_rotation(config.d_head, rng) for _ in blocks])
    if config.n_heads > 1:
        new = shuffle_heads(new, [torch.randperm(config.n_heads, generator=rng) for _ in blocks])
    orders = [torch.randperm(config.p, generator=rng) for _ in blocks]
    scales = [torch.rand(config.p, generator=rng, dtype=torch.float64) * 3 + 0.25 for _ in blocks]
    new = shuffle_hidden(new, orders, scales if config.activation == "relu" else [torch.ones(config.p)] * len(blocks))
    if rename:
        new = rename_tokens(new, torch.randperm(config.T, generator=rng))
        if config.reads_positions and not config.causal:
            new = rename_positions(new, torch.randperm(config.L, generator=rng))
    return _in_precision(new, config.dtype)


def random_rotation(d: int, rng: torch.Generator) -> Float[Tensor, "d_model d_model"]:
    """An orthogonal matrix, uniformly distributed."""
    q, r = torch.linalg.qr(torch.randn(d, d, generator=rng, dtype=torch.float64))
    return q * r.diagonal().sign()


def change_basis(model: CountingTransformer, bases: list[Float[Tensor, "d_model d_model"]]) -> CountingTransformer:
    """What block i reads is multiplied by `bases[i]`, an invertible matrix, and read accordingly."""
    weights = _weights(model)
    for parameter in model.config.parameters:
        part = parameter.name.split(".")
        block = int(part[1]) if part[0] == "blocks" else 0
        if len(parameter.axes) > 1 and parameter.axes[-2] == "d_model":
            weights[parameter.name] = torch.linalg.solve(bases[block], weights[parameter.name])
        elif parameter.axes[-1] == "d_model":  # a feed-forward layer writes to the stream of the next block
            weights[parameter.name] = weights[parameter.name] @ bases[block + part.count("mlp")]
    return _rebuilt(model, weights)


def change_qk_basis(model: CountingTransformer, bases: list[Float[Tensor, "d_head d_head"]]) -> CountingTransformer:
    """Queries and keys of block i meet in another basis; their products stay."""
    weights = _weights(model)
    for i, basis in enumerate(bases):
        block = f"blocks.{i}.attn."
        weights[block + "W_Q"] = weights[block + "W_Q"] @ basis
        weights[block + "W_K"] = torch.linalg.solve(basis, weights[block + "W_K"].mT).mT
    return _rebuilt(model, weights)


def change_ov_basis(model: CountingTransformer, bases: list[Float[Tensor, "d_head d_head"]]) -> CountingTransformer:
    """Learned values of block i are mixed in another basis; W_V W_O stays."""
    weights = _weights(model)
    for i, basis in enumerate(bases):
        block = f"blocks.{i}.attn."
        weights[block + "W_V"] = weights[block + "W_V"] @ basis
        weights[block + "W_O"] = torch.linalg.solve(basis, weights[block + "W_O"])
    return _rebuilt(model, weights)


def shuffle_heads(model: CountingTransformer, orders: list[Int[Tensor, "head"]]) -> CountingTransformer:
    """Heads of block i in the order `orders[i]`."""
    weights = _weights(model)
    for parameter in model.config.parameters:
        if parameter.axes[0] == "head":
            weights[parameter.name] = weights[parameter.name][orders[int(parameter.name.split(".")[1])]]
    return _rebuilt(model, weights)


def shuffle_hidden(
    model: CountingTransformer, orders: list[Int[Tensor, "d_mlp"]], scales: list[Float[Tensor, "d_mlp"]]
) -> CountingTransformer:
    """Hidden units of block i in the order `orders[i]`, then multiplied by the positive `scales[i]`."""
    weights = _weights(model)
    for i, (order, scale) in enumerate(zip(orders, scales, strict=True)):
        block = f"blocks.{i}.mlp."
        weights[block + "W_in"] = weights[block + "W_in"][:, order] * scale
        weights[block + "b_in"] = weights[block + "b_in"][order] * scale
        weights[block + "W_out"] = weights[block + "W_out"][order] / scale[:, None]
    return _rebuilt(model, weights)


def shift_scores(model: CountingTransformer, shifts: list[Float[Tensor, "query"]]) -> CountingTransformer:
    """`lin+sftm`: add `shifts[i][l]` to row l of the scores of block i."""
    weights = _weights(model)
    for i, shift in enumerate(shifts):
        weights[f"blocks.{i}.attn.A"] = weights[f"blocks.{i}.attn.A"] + shift[:, None]
    return _rebuilt(model, weights)


def rename_tokens(model: CountingTransformer, permutation: Int[Tensor, "token"]) -> CountingTransformer:
    """`rename_tokens(model, permutation)(permutation[tokens])` equals `model(tokens)`. `$` keeps its row."""
    weights = _weights(model)
    table = weights["embed.W_E"].clone()
    table[permutation] = weights["embed.W_E"][: model.config.T]
    weights["embed.W_E"] = table
    return _rebuilt(model, weights)


def rename_positions(model: CountingTransformer, permutation: Int[Tensor, "pos"]) -> CountingTransformer:
    """What stood at position l now stands at position `permutation[l]`, in the sequence and in the answer."""
    weights = _weights(model)
    for parameter in model.config.parameters:
        old, new = weights[parameter.name], weights[parameter.name].clone()
        if parameter.axes[-1] == "key":
            new[..., permutation[:, None], permutation] = old
        elif parameter.axes[0] == "pos":  # `$`, in front, stays there
            new[permutation + model.config.has_bos] = old[-model.config.L :]
        weights[parameter.name] = new
    return _rebuilt(model, weights)


def _random_basis(config: CountingConfig, rng: torch.Generator) -> Float[Tensor, "d_model d_model"]:
    if config.layer_norm:
        return torch.eye(config.d, dtype=torch.float64)[torch.randperm(config.d, generator=rng)]
    return _random_scale(rng) * random_rotation(config.d, rng)


def _random_scale(rng: torch.Generator) -> float:
    return 2.0 ** (2 * float(torch.rand((), generator=rng)) - 1)


def _weights(model: CountingTransformer) -> dict[str, Tensor]:
    return {name: value.detach().double() for name, value in model.state_dict().items()}


def _in_precision(model: CountingTransformer, dtype: str) -> CountingTransformer:
    return CountingTransformer(model.config.replace(dtype=dtype), model.state_dict(), model.metadata)


def _rebuilt(model: CountingTransformer, weights: dict[str, Tensor]) -> CountingTransformer:
    metadata = {key: value for key, value in model.metadata.items() if key != "sha256"}
    return CountingTransformer(model.config, weights, metadata)
