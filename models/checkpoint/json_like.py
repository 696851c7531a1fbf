"""Metadata: what JSON can carry and nothing else, from strangers strictly. Our own go through `models.plain`."""

from __future__ import annotations

import json
import math
from typing import Any

from models.checkpoint.contents import MAX_DEPTH, MAX_ITEMS, Refused
from models.errors import printable


def parse(text: str | bytes) -> Any:
    """JSON without duplicate keys, NaN, Infinity, or numbers too large for a float."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite_float)
    except RecursionError:
        raise Refused(f"its metadata are nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # json's own, bad UTF-8, integers of thousands of digits
        raise Refused(f"its metadata are not valid JSON ({printable(str(error), 80)})") from None
    return checked(value)


def dump(value: Any) -> str:
    """The canonical text: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checked(value: Any) -> Any:
    """A copy of a tree that came out of a file, tuples as lists; anything but plain finite JSON is refused."""
    items = 0

    def copy(value: Any, depth: int) -> Any:
        nonlocal items
        items += 1
        if depth > MAX_DEPTH or items > MAX_ITEMS:
            raise Refused(f"its metadata have more than {MAX_ITEMS} values or {MAX_DEPTH} levels")
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int) and abs(value) < 2**64:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        if isinstance(value, (list, tuple)):
            return [copy(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {_key(key): copy(item, depth + 1) for key, item in value.items()}
        raise Refused(f"its metadata hold {_describe(value)}, which JSON cannot carry")

    return copy(value, 0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(f"its metadata have the key {_quoted(twice)} twice")
    return fields


def _no_constant(name: str) -> Any:
    raise Refused(f"its metadata hold {name}, which JSON cannot carry")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refused(f"its metadata hold {printable(text, 20)}, which is too large for a number")
    return number


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise Refused(f"its metadata have a key that is not a name but {_describe(key)}")


def _describe(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f"the number {printable(repr(float(value)) if isinstance(value, float) else 'beyond 64 bits', 30)}"
    return f"a {printable(type(value).__name__, 40)}"


def _quoted(name: str) -> str:
    return printable(repr(name), 60)
