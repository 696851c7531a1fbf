"""Do these tensors make a counting model? Checked against the configuration before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from models.checkpoint.contents import Refused
from models.config import CountingConfig
from models.errors import printable

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def expected_shapes(config: CountingConfig) -> dict[str, tuple[int, ...]]:
    """The state_dict of a model, as shapes."""
    d, p = config.d, config.p
    shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (config.vocab, d)}
    for layer, outputs in enumerate(config.block_outputs):
        block = f"blocks.{layer}."
        if config.mixing == "lin":
            shapes[block + "attn.A"] = (config.L, config.L)
        else:
            shapes |= {block + "attn.W_Q": (d, d), block + "attn.W_K": (d, d)}
        shapes |= {block + "mlp.W_in": (d, p), block + "mlp.b_in": (p,)}
        shapes |= {block + "mlp.W_out": (p, outputs), block + "mlp.b_out": (outputs,)}
    return shapes


def check_numbers(weights: Mapping[str, Tensor]) -> None:
    """Real, finite floating-point numbers, all of one kind."""
    for name, tensor in weights.items():
        if tensor.dtype not in _FLOATS:
            raise Refused(f"stores {_quoted(name)} as {tensor.dtype}; weights are floating-point numbers")
        finite = all(bool(part.isfinite().all()) for part in tensor.reshape(-1).split(2**20))
        if not finite:
            raise Refused(f"has NaN or infinite numbers in {_quoted(name)}; a run that diverged? load an earlier one")
    kinds = {str(tensor.dtype) for tensor in weights.values()}
    if len(kinds) > 1:
        raise Refused(f"mixes {' and '.join(sorted(kinds))} weights; convert them to one")


def check_shapes(weights: Mapping[str, Tensor], config: CountingConfig) -> None:
    """Exactly the tensors that `config` asks for, in exactly its shapes."""
    expected = expected_shapes(config)
    missing, unknown = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing:
        raise Refused(f"lacks {missing[0]!r}, which a {config.name} model has; is its configuration right?")
    if unknown:
        raise Refused(f"has {_quoted(unknown[0])}, which a {config.name} model of {config.n_layers} layers does not")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            sizes = f"T={config.T}, L={config.L}, d={config.d}, p={config.p}"
            raise Refused(f"has {name} of shape {list(weights[name].shape)}; {sizes} asks for {list(shape)}")


def _quoted(name: str) -> str:
    return printable(repr(name), 60)
