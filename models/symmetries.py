"""Changes of the weights that change no answer: a verdict about a model must not depend on them.

Exact in exact arithmetic, for one and two layers:

    change_basis       the space between embedding and feed-forward layer, by any invertible matrix per block (values
                       are the identity, so nothing singles out a basis): x -> x R, and W_Q, W_K, W_in -> R^-1 W
    change_qk_basis    the space in which queries meet keys: W_Q -> W_Q M, W_K -> W_K M^-T
    shuffle_hidden     order and positive scale of the hidden units, which a ReLU passes through
    shift_scores       `lin+sftm`: a constant per row of A, which the softmax takes away

Up to a renaming, which the task does not see:

    rename_tokens      token t of the old model is token permutation[t] of the new one
    rename_positions   `lin`: position l of the old model is position permutation[l] of the new one

Rescaling single tokens is not among them: attention and values may compensate it in a trained model, but only nearly.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.transformer import CountingTransformer


def random_symmetry(model: CountingTransformer, seed: int, *, rename: bool = False) -> CountingTransformer:
    """A model that computes the same function with other weights.

    Args:
        seed: fixes the change.
        rename: also permute tokens and, for `lin`, positions. The new model gives `new[permuted tokens]` the counts
            that the old one gives `tokens`; on the histogram task both are right equally often.
    """
    rng = torch.Generator().manual_seed(seed)
    config = model.config
    blocks = range(config.n_layers)
    new = _in_precision(model, "float64")  # one rounding at the end instead of one per step
    new = change_basis(new, [_random_scale(rng) * random_rotation(config.d, rng) for _ in blocks])
    if config.mixing == "lin":
        if config.softmax:
            new = shift_scores(new, [torch.randn(config.L, generator=rng, dtype=torch.float64) for _ in blocks])
    else:
        stretch = [torch.rand(config.d, generator=rng, dtype=torch.float64) + 0.5 for _ in blocks]
        new = change_qk_basis(new, [random_rotation(config.d, rng) * column for column in stretch])
    orders = [torch.randperm(config.p, generator=rng) for _ in blocks]
    scales = [torch.rand(config.p, generator=rng, dtype=torch.float64) * 3 + 0.25 for _ in blocks]
    new = shuffle_hidden(new, orders, scales)
    if rename:
        new = rename_tokens(new, torch.randperm(config.T, generator=rng))
        if config.mixing == "lin":
            new = rename_positions(new, torch.randperm(config.L, generator=rng))
    return _in_precision(new, config.dtype)


def random_rotation(d: int, rng: torch.Generator) -> Float[Tensor, "d_model d_model"]:
    """An orthogonal matrix, uniformly distributed."""
    q, r = torch.linalg.qr(torch.randn(d, d, generator=rng, dtype=torch.float64))
    return q * r.diagonal().sign()


def change_basis(model: CountingTransformer, bases: list[Float[Tensor, "d_model d_model"]]) -> CountingTransformer:
    """What block i reads is multiplied by `bases[i]`, an invertible matrix, and read accordingly."""
    weights = _weights(model)
    for i, basis in enumerate(bases):
        if i == 0:
            weights["embed.W_E"] = weights["embed.W_E"] @ basis
        else:  # what the block before writes
            for name in (f"blocks.{i - 1}.mlp.W_out", f"blocks.{i - 1}.mlp.b_out"):
                weights[name] = weights[name] @ basis
        readers = ["mlp.W_in"] if model.config.mixing == "lin" else ["mlp.W_in", "attn.W_Q", "attn.W_K"]
        for name in readers:
            weights[f"blocks.{i}.{name}"] = torch.linalg.solve(basis, weights[f"blocks.{i}.{name}"])
    return _rebuilt(model, weights)


def change_qk_basis(model: CountingTransformer, bases: list[Float[Tensor, "d_head d_head"]]) -> CountingTransformer:
    """Queries and keys of block i meet in another basis; their products stay."""
    weights = _weights(model)
    for i, basis in enumerate(bases):
        block = f"blocks.{i}.attn."
        weights[block + "W_Q"] = weights[block + "W_Q"] @ basis
        weights[block + "W_K"] = torch.linalg.solve(basis, weights[block + "W_K"].T).T
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
    """`lin`: what stood at position l now stands at position `permutation[l]`, in the sequence and in the answer."""
    weights = _weights(model)
    for i in range(model.config.n_layers):
        A = weights[f"blocks.{i}.attn.A"]
        moved = torch.empty_like(A)
        moved[permutation[:, None], permutation] = A
        weights[f"blocks.{i}.attn.A"] = moved
    return _rebuilt(model, weights)


def _random_scale(rng: torch.Generator) -> float:
    return 2.0 ** (2 * float(torch.rand((), generator=rng)) - 1)


def _weights(model: CountingTransformer) -> dict[str, Tensor]:
    return {name: value.detach().double() for name, value in model.state_dict().items()}


def _in_precision(model: CountingTransformer, dtype: str) -> CountingTransformer:
    return CountingTransformer(model.config.replace(dtype=dtype), model.state_dict(), model.metadata)


def _rebuilt(model: CountingTransformer, weights: dict[str, Tensor]) -> CountingTransformer:
    metadata = {key: value for key, value in model.metadata.items() if key != "sha256"}
    return CountingTransformer(model.config, weights, metadata)
