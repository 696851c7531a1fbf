"""Values as JSON can carry them: the one place where NaN and infinities become null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """`value` in JSON's types: tensors, arrays and tuples as lists, dataclasses and mappings as dicts, keys as text.

    NaN and infinities become None. A type that none of this fits is a ValueError, not a guess.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # a tensor, an array, or a scalar of numpy
        return plain(value.tolist())
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    raise ValueError(f"a value must be JSON-like (texts, numbers, None, lists, dicts), got a {type(value).__name__}")


def to_json(value: Any, **options: Any) -> str:
    """The text of `plain(value)`; `options` as in json.dumps."""
    return json.dumps(plain(value), allow_nan=False, **options)
