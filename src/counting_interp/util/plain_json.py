"""JSON: writing values, with NaN and infinities as null, and strict parsing of untrusted text."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from counting_interp.util.errors import Refused, printable, quoted

MAX_ITEMS = 20_000  # values in a tree from a file, containers included
MAX_DEPTH = 32
MAX_CHARACTERS = 2**20


def plain(value: Any) -> Any:
    """`value` in JSON's types: tensors, arrays and tuples as lists, dataclasses and mappings as dicts, keys as text.

    NaN and infinities become None.

    Raises:
        ValueError: a type that has no JSON form.
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


def parse_strictly(text: str | bytes) -> Any:
    """Parses JSON.

    Raises:
        Refused: it has duplicate keys, NaN, Infinity or numbers too large for a float, or `checked_tree` refuses it.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_finite_float, parse_float=_finite_float)
    except RecursionError:
        raise Refused(f"its metadata are nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # json's own, bad UTF-8, integers of thousands of digits
        raise Refused(f"its metadata are not valid JSON ({printable(str(error), 80)})") from None
    return checked_tree(value)


def canonical(value: Any) -> str:
    """The canonical text: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checked_tree(value: Any) -> Any:
    """A copy of a tree from a file, with tuples as lists.

    Values that a pickle shares count each time they occur, as JSON would write them.

    Raises:
        Refused: it is not plain finite JSON, or it is too large or too deep.
    """
    items = characters = 0

    def copy(value: Any, depth: int) -> Any:
        nonlocal items, characters
        items += 1
        characters += len(value) if isinstance(value, str) else 0
        if depth > MAX_DEPTH or items > MAX_ITEMS:
            raise Refused(f"its metadata have more than {MAX_ITEMS} values or {MAX_DEPTH} levels")
        if characters > MAX_CHARACTERS:
            raise Refused(f"its metadata have more than {MAX_CHARACTERS:,} characters")
        small_integer = isinstance(value, int) and abs(value) < 2**64
        finite_float = isinstance(value, float) and math.isfinite(value)
        if value is None or isinstance(value, (bool, str)) or small_integer or finite_float:
            return value
        if isinstance(value, (list, tuple)):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {copy(_key(key), depth + 1): copy(item, depth + 1) for key, item in value.items()}
        shown = "an integer beyond 64 bits" if isinstance(value, int) else quoted(value)
        raise Refused(f"its metadata hold {shown}, which JSON cannot carry")

    return copy(value, 0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise Refused(f"its metadata have the key {quoted(twice)} twice")
    return fields


def _finite_float(text: str) -> float:
    """A parsed number; NaN, Infinity and numbers beyond a float are refused."""
    number = float(text)
    if not math.isfinite(number):
        raise Refused(f"its metadata hold {printable(text, 20)}, which JSON cannot carry")
    return number


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise Refused(f"its metadata have a key that is not a name but {quoted(key)}")
