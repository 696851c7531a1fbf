"""Which model gave these answers: a hash that a changed checkpoint changes, without reading all of its gigabytes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import torch

VALUES = 64  # of each weight matrix


def model_fingerprint(model: Any) -> str:
    """Over every weight's name, shape and type, and its first and last values."""
    digest = sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        if weight.is_meta:  # kept elsewhere and fetched when it is needed: its values cannot be read here
            continue
        flat = weight.detach().reshape(-1)
        values = torch.cat([flat[:VALUES], flat[-VALUES:]]).to("cpu", torch.float64)
        digest.update(values.numpy().tobytes())
    return digest.hexdigest()[:16]


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Over the vocabulary."""
    return sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()[:16]
