"""Small models that count by construction, one per variant, and their files in the published layout."""

from __future__ import annotations

import torch

from counting_interp.models import CountingConfig, CountingTransformer

T, L = 9, 5


def counting_model(variant: str, n_classes: int = L + 1) -> CountingTransformer:
    """Exactly right on every sequence, and wrong when read as another variant.

    Embeddings are unit vectors. `dot`: attention 1 between equal tokens, so the mixed token has 1 + k in all. `bos`:
    the same with attention 1 to `$` on top. `bos+sftm`: equal tokens score 1, and `$` 0, whose share falls with k.
    `lin`, `lin+sftm`, `dot+sftm`: uniform attention a, one hidden unit per token, ReLU(a n_s + [s = t] - 1) = a k.
    The count is the nearest of the values h_k: logits 2 h h_k - h_k^2.
    """
    inventory = variant in ("lin", "lin+sftm", "dot+sftm")
    vocab = T + variant.startswith("bos")
    config = CountingConfig.parse(variant, T=T, L=L, d=vocab, p=T if inventory else 1, n_classes=n_classes)
    counts = torch.arange(1.0, L + 1)
    weights = {"embed.W_E": torch.eye(vocab)}
    if inventory:
        share = 1 / (L + 1) if variant == "lin" else 1 / L
        values, W_in, b_in = share * counts, torch.eye(T), -torch.ones(T)
    elif variant == "bos+sftm":
        values = 1 / (counts * torch.e + (L - counts) + 1)
        W_in, b_in = torch.eye(vocab)[:, -1:], torch.zeros(1)
    else:
        values, W_in, b_in = counts + 1 + (variant == "bos"), torch.ones(vocab, 1), torch.zeros(1)
    if config.mixing == "lin":
        weights["blocks.0.attn.A"] = torch.full((L, L), 1 / (L + 1) if variant == "lin" else 0.0)
    else:
        same = 0.0 if variant == "dot+sftm" else vocab**0.5
        weights["blocks.0.attn.W_Q"] = same * torch.eye(vocab)
        weights["blocks.0.attn.W_K"] = torch.eye(vocab)
        if variant == "bos":
            weights["blocks.0.attn.W_K"][-1, :] = 1.0  # `$` is seen by every token
    weights |= {"blocks.0.mlp.W_in": W_in, "blocks.0.mlp.b_in": b_in}
    weights["blocks.0.mlp.W_out"] = 2e2 * values.expand(config.p, L).clone()
    weights["blocks.0.mlp.b_out"] = -1e2 * values**2
    if n_classes > L:  # class 0 never wins
        weights["blocks.0.mlp.W_out"] = torch.cat([torch.zeros(config.p, 1), weights["blocks.0.mlp.W_out"]], 1)
        weights["blocks.0.mlp.b_out"] = torch.cat([torch.tensor([-6e4]), weights["blocks.0.mlp.b_out"]])
    return CountingTransformer(config, weights)


def published_layout(model: CountingTransformer, *, positions: bool = True) -> dict[str, torch.Tensor]:
    """The state_dict that the authors' code would have written for a one-layer model."""
    ours = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    block = {name.removeprefix("blocks.0."): tensor for name, tensor in ours.items()}
    theirs = {"semantic_emb.weight": ours["embed.W_E"]}
    if positions:
        theirs["positional_emb.pe"] = torch.arange(model.config.L).unsqueeze(0)
        theirs["positional_emb.embedding.weight"] = torch.ones(model.config.L, model.config.d)
    for name, key in (("attn.A", "A"), ("attn.W_Q", "Q"), ("attn.W_K", "K")):
        if name in block:
            theirs[f"token_mixer.{key}"] = block[name]
    for name, layer in (("in", "fc1"), ("out", "fc2")):
        theirs[f"{layer}.weight"] = block[f"mlp.W_{name}"].T.contiguous()
        theirs[f"{layer}.bias"] = block[f"mlp.b_{name}"]
    return theirs
