"""Do these tensors make a counting model? Checked against the configuration before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from counting_interp.models.checkpoint.contents import Refused
from counting_interp.models.config import CountingConfig
from counting_interp.util.errors import quoted

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_numbers(weights: Mapping[str, Tensor]) -> None:
    """Real, finite floating-point numbers, all of one kind."""
    for name, tensor in weights.items():
        if tensor.dtype not in _FLOATS:
            raise Refused(f"stores {quoted(name)} as {tensor.dtype}; weights are floating-point numbers")
        finite = all(bool(part.isfinite().all()) for part in tensor.reshape(-1).split(2**20))
        if not finite:
            raise Refused(f"has NaN or infinite numbers in {quoted(name)}; a run that diverged? load an earlier one")
    kinds = {str(tensor.dtype) for tensor in weights.values()}
    if len(kinds) > 1:
        raise Refused(f"mixes {' and '.join(sorted(kinds))} weights; convert them to one")


def check_shapes(weights: Mapping[str, Tensor], config: CountingConfig) -> None:
    """Exactly the tensors that `config` asks for, in exactly its shapes."""
    expected = {parameter.name: parameter.shape for parameter in config.parameters}
    missing, unknown = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing:
        raise Refused(f"lacks {missing[0]!r}, which a {config.name} model has; is its configuration right?")
    if unknown:
        raise Refused(f"has {quoted(unknown[0])}, which a {config.name} model of {config.n_layers} layers does not")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            sizes = f"T={config.T}, L={config.L}, d={config.d}, p={config.p}"
            raise Refused(f"has {name} of shape {list(weights[name].shape)}; {sizes} asks for {list(shape)}")
