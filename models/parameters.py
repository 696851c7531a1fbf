"""Every parameter of a model, declared once: its name, its axes, how it is initialised, whether it is trained.

One function for each part of a model. What is built (`blocks`), drawn, counted (`config`), checked (`checkpoint`), laid
out for training and changed without changing the function (`symmetries`) follows from these lists.
The order of the list is the order in which a seed draws.

A first axis `d_model` reads the residual stream, a last axis `d_model` writes to it. The paper's models have one head,
and their W_Q, W_K and A no axis for it.

The published initialisation is drawn from a private generator, so that a seed fixes the weights. torch is imported when
weights are drawn, not before: configurations are needed without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from counting_interp.models.config import CountingConfig


@dataclass(frozen=True)
class Parameter:
    """One tensor.

    Attributes:
        name: in its part, `W_Q`; of a whole model, as in the state dict, `blocks.0.attn.W_Q`.
        axes: by the glossary of the package.
        init: `normal` or `uniform` on [-1, 1], both divided by sqrt(fan_in); `ones` or `zeros`.
        trained: False for what keeps its first value.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    init: str
    fan_in: int = 1
    trained: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def parameters(config: CountingConfig) -> tuple[Parameter, ...]:
    """All of a model."""
    parts = {"embed": embedding(config), "pos_embed": positional_embedding(config)}
    for layer in range(config.n_layers):
        parts |= {f"blocks.{layer}.ln1": norm(config), f"blocks.{layer}.attn": mixer(config)}
        parts |= {f"blocks.{layer}.ln2": norm(config), f"blocks.{layer}.mlp": feed_forward(config, layer)}
    return tuple(
        replace(parameter, name=f"{part}.{parameter.name}")
        for part, declared in parts.items()
        for parameter in declared
    )


def embedding(config: CountingConfig) -> Iterator[Parameter]:
    """Published: N(0, 1), or N(0, 1/d) if they stay as they are."""
    frozen = config.frozen_embeddings
    yield _declare(config, "W_E", "vocab d_model", "normal", config.d if frozen else 1, trained=not frozen)


def positional_embedding(config: CountingConfig) -> Iterator[Parameter]:
    """N(0, 1/d), so that at first a position says more about its token than about where it is."""
    if config.positions:
        yield _declare(config, "W_pos", "pos d_model", "normal", config.d)


def mixer(config: CountingConfig) -> Iterator[Parameter]:
    head = "head " if config.n_heads > 1 else ""
    if config.mixing == "lin":
        yield _declare(config, "A", head + "query key", "uniform", config.L)
    elif config.mixing in ("dot", "bos"):
        yield _declare(config, "W_Q", head + "d_model d_head", "uniform", config.d)
        yield _declare(config, "W_K", head + "d_model d_head", "uniform", config.d)
    else:
        raise ValueError(f"the weights of the mixer {config.mixing} are not declared in models/parameters.py")
    if config.values:
        yield _declare(config, "W_V", "head d_model d_head", "uniform", config.d)
        yield _declare(config, "W_O", "head d_head d_model", "uniform", config.d)


def feed_forward(config: CountingConfig, layer: int) -> Iterator[Parameter]:
    """To the residual stream of the next block, or to the classes."""
    out = "class" if layer == config.n_layers - 1 else "d_model"
    yield _declare(config, "W_in", "d_model d_mlp", "uniform", config.d)
    yield _declare(config, "b_in", "d_mlp", "uniform", config.d)
    yield _declare(config, "W_out", f"d_mlp {out}", "uniform", config.p)
    yield _declare(config, "b_out", out, "uniform", config.p)


def norm(config: CountingConfig) -> Iterator[Parameter]:
    if config.layer_norm:
        yield _declare(config, "w", "d_model", "ones")
        yield _declare(config, "b", "d_model", "zeros")


def _declare(
    config: CountingConfig, name: str, axes: str, init: str, fan_in: int = 1, *, trained: bool = True
) -> Parameter:
    sizes = {
        "vocab": config.vocab,
        "pos": config.n_positions,
        "query": config.L,
        "key": config.L,
        "head": config.n_heads,
        "d_model": config.d,
        "d_head": config.d_head,
        "d_mlp": config.p,
        "class": config.classes,
    }
    names = tuple(axes.split())
    return Parameter(name, names, tuple(sizes[axis] for axis in names), init, fan_in, trained)


def published_initialisation(config: CountingConfig) -> dict[str, torch.Tensor]:
    """Weights by state_dict name, in float64, drawn in the order in which they are declared.

    Embeddings N(0, 1), or N(0, 1/d) when they stay frozen; W_Q, W_K uniform in +-1/sqrt(d); A uniform in +-1/sqrt(L);
    feed-forward weights and biases uniform in +-1/sqrt(fan-in). The published code adds noise of relative size 0.001
    to every occurrence of a frozen embedding; it is left out here, so that equal tokens have equal embeddings.
    """
    import torch

    rng = torch.Generator().manual_seed(config.seed)
    return {parameter.name: _draw(parameter, rng) for parameter in parameters(config)}


def _draw(parameter: Parameter, rng: torch.Generator) -> torch.Tensor:
    import torch

    if parameter.init in ("ones", "zeros"):
        return torch.full(parameter.shape, float(parameter.init == "ones"), dtype=torch.float64)
    if parameter.init == "normal":
        drawn = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    else:
        drawn = torch.rand(parameter.shape, generator=rng, dtype=torch.float64) * 2 - 1
    return drawn / parameter.fan_in**0.5
