"""Reading the prompt book from `prompts.json`, and from a user's own file of the same form.

Fields of a file, all optional in a user's own: `list` (how a list is written), `categories` (a name as it stands in a
sentence, and items), `prompts` (a template and what it asks for), `ordinals`, and `numbers` (for each count from zero,
its ways of writing). Placeholders of a template: `{list}`, `{length}` (a number word), `{category}`, and `{ordinal}`
or `{item}`. Categories and prompts are added to the bundled ones by name; other fields replace them.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from counting_interp.data import prompts
from counting_interp.interp.llm.book import Category, Entry, ListFormat, Prompt, PromptBook, Text, Word, check_printable
from counting_interp.util.errors import printable

T = TypeVar("T")
BUNDLED = prompts()
MAX_BYTES = 2**20
MAX_ENTRIES = 200
Forms = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=100)]
Numbers = Annotated[tuple[Forms, ...], Meta(min_length=2, max_length=1000)]
Ordinals = Annotated[tuple[Word, ...], Meta(min_length=2, max_length=1000)]
Entries = Annotated[dict[Word, Any], Meta(min_length=1, max_length=MAX_ENTRIES)]


class PromptFile(Struct, forbid_unknown_fields=True):
    """What may stand in a file. Entries are checked one by one, so that an error can name theirs."""

    about: Text | None = None
    list: ListFormat | None = None
    categories: Entries | None = None
    prompts: Entries | None = None
    ordinals: Ordinals | None = None
    numbers: Numbers | None = None

    def __post_init__(self) -> None:
        fields = (self.list, self.categories, self.prompts, self.ordinals, self.numbers)
        if all(field is None for field in fields):
            raise ValueError("it holds nothing; give list, categories, prompts, ordinals or numbers")
        check_printable((*(self.categories or ()), *(self.prompts or ()), *(self.ordinals or ())))
        forms = Counter(form for forms in self.numbers or () for form in set(forms))
        for form, n in forms.items():
            if not form.isalnum():
                raise ValueError(f"a number is written with letters and digits alone, got {form!r}")
            if n > 1:
                raise ValueError(f"{form!r} stands for two numbers")


def read_prompts(path: str | Path | None = None) -> PromptBook:
    """The bundled book, extended by the file at `path` if there is one. What is wrong with that is one ValueError."""
    bundled = _read(BUNDLED)
    if path is None:
        return _book(bundled)
    try:
        own = _read(Path(path))
        for name in ("categories", "prompts"):
            entries = {**getattr(bundled, name), **(getattr(own, name) or {})}
            setattr(own, name, entries)
        for name in ("list", "ordinals", "numbers"):
            if getattr(own, name) is None:
                setattr(own, name, getattr(bundled, name))
        return _book(own)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(printable(f"prompt file {path}: {error}", 500)) from None


def _read(path: Path) -> PromptFile:
    """A key that stands twice is refused: the first one would be lost silently."""
    if not path.is_file():
        raise ValueError("there is no such file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return _checked(json.loads(data, object_pairs_hook=_unique), PromptFile)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {printable(repr(key), 80)} stands twice")
    return fields


def _book(fields: PromptFile) -> PromptBook:
    assert fields.list, "the bundled file has all fields"
    assert fields.ordinals
    assert fields.numbers
    return PromptBook(
        list_format=fields.list,
        categories=_entries("category", fields.categories, Category),
        prompts=_entries("prompt", fields.prompts, Prompt),
        ordinals=fields.ordinals,
        numbers=fields.numbers,
    )


def _entries(kind: str, values: dict[str, Any] | None, entry: type[Entry]) -> dict[str, Entry]:
    return {name: _checked(value, entry, f"{kind} {name!r}: ") for name, value in (values or {}).items()}


def _checked(value: Any, schema: type[T], where: str = "") -> T:
    """By the schema; msgspec's message ends with the place: `Expected `str`, got `int` - at `$.items[1]``."""
    try:
        return convert(value, schema)
    except ValidationError as error:
        raise ValueError(f"{where}{printable(str(error), 300)}") from None
