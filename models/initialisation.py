"""The published initialisation, drawn from a private generator so that a seed fixes the weights."""

from __future__ import annotations

import torch

from models.config import CountingConfig


def published_initialisation(config: CountingConfig) -> dict[str, torch.Tensor]:
    """Weights by state_dict name, in float64, drawn in a fixed order.

    Embeddings N(0, 1), or N(0, 1/d) when they stay frozen; W_Q, W_K uniform in +-1/sqrt(d); A uniform in +-1/sqrt(L);
    feed-forward weights and biases uniform in +-1/sqrt(fan-in). The published code adds noise of relative size 0.001
    to every occurrence of a frozen embedding; it is left out here, so that equal tokens have equal embeddings.
    """
    rng = torch.Generator().manual_seed(config.seed)

    def uniform(*shape: int, fan_in: int) -> torch.Tensor:
        return (torch.rand(*shape, generator=rng, dtype=torch.float64) * 2 - 1) / fan_in**0.5

    embeddings = torch.randn(config.vocab, config.d, generator=rng, dtype=torch.float64)
    weights = {"embed.W_E": embeddings / config.d**0.5 if config.frozen_embeddings else embeddings}
    for layer, outputs in enumerate(config.block_outputs):
        block = f"blocks.{layer}."
        if config.mixing == "lin":
            weights[block + "attn.A"] = uniform(config.L, config.L, fan_in=config.L)
        else:
            weights[block + "attn.W_Q"] = uniform(config.d, config.d, fan_in=config.d)
            weights[block + "attn.W_K"] = uniform(config.d, config.d, fan_in=config.d)
        weights[block + "mlp.W_in"] = uniform(config.d, config.p, fan_in=config.d)
        weights[block + "mlp.b_in"] = uniform(config.p, fan_in=config.d)
        weights[block + "mlp.W_out"] = uniform(config.p, outputs, fan_in=config.p)
        weights[block + "mlp.b_out"] = uniform(outputs, fan_in=config.p)
    return weights
