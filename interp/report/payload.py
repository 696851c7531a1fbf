"""A model as JSON that a page can carry: its configuration and its weights, each as base64 of little-endian float32."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from models import CountingTransformer


def model_payload(model: CountingTransformer) -> dict[str, Any]:
    """`{"config": {...}, "weights": {name: {"shape": [...], "base64": "..."}}}`, read by `assets/model.js`."""
    weights = {}
    for name, tensor in model.state_dict().items():
        values = tensor.detach().cpu().float().contiguous().numpy().astype("<f4")
        weights[name] = {"shape": list(values.shape), "base64": base64.b64encode(values.tobytes()).decode("ascii")}
    return {"config": dataclasses.asdict(model.config), "weights": weights}
