"""Reading a count from what a model writes: the second measure, and the one behind the published figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

NEW_TOKENS = 10  # as published


def number_pattern(numbers: Sequence[Sequence[str]]) -> re.Pattern[str]:
    """Matches a number at the very beginning of a text, white space aside: `3`, `three`, `Three`; not `3rd`, `3.5` or
    `threefold`, and not the 1 of 10."""
    words = sorted((form for forms in numbers for form in forms if not form.isdigit()), key=len, reverse=True)
    return re.compile(rf"\s*(?P<number>[0-9]+|{'|'.join(map(re.escape, words))})(?![\w]|[.,][0-9])", re.IGNORECASE)


def parse_count(text: str, numbers: Sequence[Sequence[str]]) -> int | None:
    """The number that a generated text begins with, or None. It may lie outside of the possible counts."""
    match = number_pattern(numbers).match(text)
    if match is None:
        return None
    form = match["number"].lower()
    if form.isdigit():
        return int(form[:10])
    return next(count for count, forms in enumerate(numbers) if form in (other.lower() for other in forms))
