"""The live model: its JavaScript, and a model as JSON for a page.

The JSON holds the configuration, and the weights in base64 of little-endian numbers.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import numpy as np
from torch import Tensor

from counting_interp.interp.pages import asset
from counting_interp.models import CountingTransformer
from counting_interp.models.config import PAPER_MIXINGS
from counting_interp.util.errors import InterpError

SCRIPTS = ("draw.js", "model.js", "attention.js", "mixtures.js", "live.js")  # in this order


def live_script() -> str:
    """The JavaScript that runs a model: `new LivePanel(element, new CountingModel(payload))`."""
    return "\n".join(asset(name) for name in SCRIPTS)


def why_not_live(model: object) -> str | None:
    """Why a page cannot run this model; None if it can."""
    if not isinstance(model, CountingTransformer):
        return "a page can run counting transformers only; this is a model of another kind"
    if model.config.mixing not in PAPER_MIXINGS:
        return f"a page computes the mixers {', '.join(PAPER_MIXINGS)}; this model has {model.config.mixing}"
    return None


def model_payload(model: CountingTransformer, *, half: bool = False) -> dict[str, Any]:
    """`{"config": {...}, "weights": {name: {"shape": [...], "base64": "..."}}}`, read by `assets/model.js`.

    Weights are float32. With `half`, tensors that fit are rounded to float16 and marked `"half": true`.

    Raises:
        InterpError: a page cannot run this model.
    """
    if (reason := why_not_live(model)) is not None:
        raise InterpError(reason)
    weights = {name: _packed(tensor, half) for name, tensor in model.state_dict().items()}
    return {"config": dataclasses.asdict(model.config), "weights": weights}


def rounded(model: CountingTransformer) -> CountingTransformer:
    """The model whose weights `model_payload(model, half=True)` carries."""
    weights = {name: _rounded(tensor) for name, tensor in model.state_dict().items()}
    return CountingTransformer(model.config, weights)


def _rounded(tensor: Tensor) -> Tensor:
    return tensor.half().to(tensor.dtype) if _fits(tensor) else tensor


def _packed(tensor: Tensor, half: bool) -> dict[str, Any]:
    half = half and _fits(tensor)
    values = tensor.detach().cpu().contiguous().numpy().astype("<f2" if half else "<f4")
    packed = {"shape": list(values.shape), "base64": base64.b64encode(values.tobytes()).decode("ascii")}
    return {**packed, "half": True} if half else packed


def _fits(tensor: Tensor) -> bool:
    """Whether all values are within half precision, up to 65,504. Hand-built models may have larger weights."""
    return bool(tensor.detach().abs().max() <= np.finfo(np.float16).max) if tensor.numel() else True
