"""Rescalings that keep a model's function in real numbers, but not in floating point.

They multiply by powers of two between 2^-149 and 2^127, or add terms that cancel. So the real function stays exactly
the same where no weight leaves the range of its dtype. One change, `_border`, does not keep it. It brings the smallest
margin close to zero, on either side, where provable and wrong models lie close together. If a rescaled model is
certified, its answers must be right when it is run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from counting_interp.models import CountingConfig, CountingTransformer, task

BLOCK = "blocks.0."
WIDTHS = (2.0, 10.0, 30.0, 60.0, 100.0)  # standard deviations of exponents
State = dict[str, torch.Tensor]


def rescaled(model: CountingTransformer, rng: np.random.Generator) -> CountingTransformer:
    """The model after one to four random changes, in float32 or float64."""
    config = model.config.replace(dtype=str(rng.choice(["float32", "float32", "float64"])))
    state = {name: value.double().clone() for name, value in model.state_dict().items()}
    width = float(rng.choice(WIDTHS))
    for change in rng.choice(len(CHANGES), rng.integers(1, 5)):
        config, state = CHANGES[change](config, state, rng, width)
    if rng.random() < 0.4:
        config, state = TO_THE_BORDER[rng.integers(len(TO_THE_BORDER))](config, state, rng, width)
    kind = getattr(torch, config.dtype)
    state = {name: value.to(kind) for name, value in state.items()}
    if not all(bool(value.isfinite().all()) for value in state.values()):
        return model
    return CountingTransformer(config, state)


def powers(rng: np.random.Generator, width: float, n: int) -> torch.Tensor:
    """2^e for random integers e, one for all n or one for each."""
    exponents = rng.normal(0, width, n if rng.random() < 0.5 else 1).round().clip(-149, 127)
    return torch.from_numpy(np.broadcast_to(2.0**exponents, n).copy())


def _axes(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Rescale axes of the residual stream: multiply embeddings, divide the weights that read them."""
    c = powers(rng, width, config.d)
    w["embed.W_E"] = w["embed.W_E"] * c
    for name in ("attn.W_Q", "attn.W_K", "mlp.W_in"):
        if BLOCK + name in w:
            w[BLOCK + name] = w[BLOCK + name] / c[:, None]
    return config, w


def _heads(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Rescale axes of queries and keys."""
    if config.mixing != "lin":
        c = powers(rng, width, config.d)
        w[BLOCK + "attn.W_Q"] = w[BLOCK + "attn.W_Q"] * c
        w[BLOCK + "attn.W_K"] = w[BLOCK + "attn.W_K"] / c
    return config, w


def _units(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Rescale hidden units: multiply their inputs, divide the read-out."""
    c = powers(rng, width, config.p)
    w[BLOCK + "mlp.W_in"] = w[BLOCK + "mlp.W_in"] * c
    w[BLOCK + "mlp.b_in"] = w[BLOCK + "mlp.b_in"] * c
    w[BLOCK + "mlp.W_out"] = w[BLOCK + "mlp.W_out"] / c[:, None]
    return config, w


def _logits(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    c = powers(rng, width, 1)
    w[BLOCK + "mlp.W_out"] = w[BLOCK + "mlp.W_out"] * c
    w[BLOCK + "mlp.b_out"] = w[BLOCK + "mlp.b_out"] * c
    return config, w


def _common(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Add the same to all logits, through the bias or one unit: margins stay and rounding grows.

    Here the real function is kept only up to the rounding of the stored weights, so the sizes are moderate.
    """
    by = float(2.0 ** rng.integers(-3, 22)) * float(w[BLOCK + "mlp.b_out"].abs().max() + 1)
    if rng.random() < 0.5:
        w[BLOCK + "mlp.b_out"] = w[BLOCK + "mlp.b_out"] + by
    else:
        w[BLOCK + "mlp.W_out"][rng.integers(config.p)] += by
    return config, w


def _dead(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Add a unit: a dead one, or an active one that no class reads."""
    d, dead = config.d, rng.random() < 0.5
    E = w["embed.W_E"]
    column = torch.zeros(d, 1, dtype=torch.float64)
    j = int(rng.integers(d))
    column[j] = float(powers(rng, width, 1))
    reach = float((E[:, j].abs() * column[j].abs()).max()) * (1 + config.n_positions) * 4
    w[BLOCK + "mlp.W_in"] = torch.cat([w[BLOCK + "mlp.W_in"], column], 1)
    bias = torch.tensor([-1e3 * reach - 1.0 if dead else 1.0], dtype=torch.float64)
    w[BLOCK + "mlp.b_in"] = torch.cat([w[BLOCK + "mlp.b_in"], bias])
    out = torch.full((1, config.classes), float(powers(rng, width, 1)) if dead else 0.0, dtype=torch.float64)
    w[BLOCK + "mlp.W_out"] = torch.cat([w[BLOCK + "mlp.W_out"], out])
    return config.replace(p=config.p + 1), w


def _tokens(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Add an axis that nothing reads, with a power of two for each token."""
    if config.mixing == "lin" and config.d < 64:
        c = powers(rng, width, config.vocab)
        w["embed.W_E"] = torch.cat([w["embed.W_E"], c[:, None]], 1)
        W_in = w[BLOCK + "mlp.W_in"]
        w[BLOCK + "mlp.W_in"] = torch.cat([W_in, torch.zeros(1, W_in.shape[1], dtype=torch.float64)])
        return config.replace(d=config.d + 1), w
    return config, w


def _border(config: CountingConfig, w: State, rng: np.random.Generator, width: float) -> tuple[CountingConfig, State]:
    """Raise one class until its smallest margin against the right one, on some sequences, is almost zero."""
    exact = CountingTransformer(config.replace(dtype="float64"), w)
    tokens = torch.from_numpy(rng.integers(config.T, size=(200, config.L)))
    right = task.histogram(tokens) - config.first_count
    with torch.no_grad():
        logits = exact(tokens)
    c = int(rng.integers(config.classes))
    gaps = (logits.gather(-1, right.unsqueeze(-1))[..., 0] - logits[..., c])[right != c]
    if len(gaps) and bool(torch.isfinite(gaps).all()):
        share = 1 - 2.0 ** -float(rng.integers(2, 40)) * (1 if rng.random() < 0.9 else -1)
        w[BLOCK + "mlp.b_out"][c] += share * float(gaps.min())
    return config, w


Change = Callable[[CountingConfig, State, np.random.Generator, float], tuple[CountingConfig, State]]
CHANGES: tuple[Change, ...] = (_axes, _axes, _heads, _heads, _units, _units, _logits, _common, _dead, _tokens)
TO_THE_BORDER: tuple[Change, ...] = (_common, _border)
