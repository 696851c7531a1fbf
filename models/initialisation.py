"""The published initialisation, drawn from a private generator so that a seed fixes the weights."""

from __future__ import annotations

import torch

from counting_interp.models.config import CountingConfig
from counting_interp.models.parameters import Parameter, parameters


def published_initialisation(config: CountingConfig) -> dict[str, torch.Tensor]:
    """Weights by state_dict name, in float64, drawn in the order in which they are declared.

    Embeddings N(0, 1), or N(0, 1/d) when they stay frozen; W_Q, W_K uniform in +-1/sqrt(d); A uniform in +-1/sqrt(L);
    feed-forward weights and biases uniform in +-1/sqrt(fan-in). The published code adds noise of relative size 0.001
    to every occurrence of a frozen embedding; it is left out here, so that equal tokens have equal embeddings.
    """
    rng = torch.Generator().manual_seed(config.seed)
    return {parameter.name: _draw(parameter, rng) for parameter in parameters(config)}


def _draw(parameter: Parameter, rng: torch.Generator) -> torch.Tensor:
    if parameter.init in ("ones", "zeros"):
        return torch.full(parameter.shape, float(parameter.init == "ones"), dtype=torch.float64)
    if parameter.init == "normal":
        drawn = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    else:
        drawn = torch.rand(parameter.shape, generator=rng, dtype=torch.float64) * 2 - 1
    return drawn / parameter.fan_in**0.5
