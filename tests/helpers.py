"""What tests share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from counting_interp.models import Adapter, CountingConfig, CountingTransformer
from counting_interp.models.config import VARIANTS

ROOT = Path(__file__).parents[1]
# Blocks beyond the paper's: each thing they may have by itself, then together.
BLOCKS = (
    "dot+sftm+values",
    "lin+2heads",
    "bos+sftm+norm",
    "dot+gelu",
    "dot+sftm+positions",
    "lin+sftm+causal",
    "dot+causal",
    "bos+sftm+values+2heads+norm+gelu+positions+causal",
    "lin+values+3heads+norm+gelu+positions",
)
EVERY_MODEL = [(variant, n_layers) for variant in VARIANTS for n_layers in (1, 2)]


def small_model(variant: str, n_layers: int = 1, *, seed: int = 0, **sizes) -> CountingTransformer:
    """An untrained model in float64, small enough for exhaustive checks."""
    config = {"T": 7, "L": 5, "d": 6, "p": 4, "dtype": "float64", "seed": seed, "n_layers": n_layers, **sizes}
    return CountingTransformer(CountingConfig.parse(variant, **config))


def small_block(name: str, n_layers: int = 1, **sizes) -> CountingTransformer:
    """The same of a block beyond the paper's; gains and biases of norms are drawn, too, so that all of it matters."""
    model = small_model(name, n_layers, **sizes)
    rng = torch.Generator().manual_seed(7)
    weights = model.state_dict()
    for weight in (weights[key] for key in weights if ".ln" in key):
        weight += 0.3 * torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
    return CountingTransformer(model.config, weights)


def adapted(model: CountingTransformer) -> Adapter:
    """A model of ours as a foreign one: known by its answers and hook points."""
    config = model.config
    with_bos: Any = {"prefix": 1, "encode": lambda s: nn.functional.pad(s, (1, 0), value=config.T)}
    return Adapter(model, T=config.T, L=config.L, read=lambda logits: logits, **(with_bos if config.prefix else {}))


def assert_close(actual, expected, tolerance: float = 1e-9) -> None:
    """Equal within `tolerance`, relative and absolute, compared in float64."""
    actual, expected = (torch.as_tensor(value, dtype=torch.float64) for value in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def run_interp(*arguments: str | Path, timeout: float = 300, **kwargs) -> subprocess.CompletedProcess[str]:
    """`interp ...` in a process of its own."""
    command = [sys.executable, "-m", "counting_interp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT, **kwargs)
