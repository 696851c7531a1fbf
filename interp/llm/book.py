"""The prompt book: everything that fixes the texts of an evaluation but the lists themselves.

The entries are also the schema of a prompt file: msgspec reads them from JSON and checks types, sizes and names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Formatter
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

Entry = TypeVar("Entry")
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=20_000)]
PLACEHOLDERS = ("list", "length", "category", "ordinal", "item")
ASKS = {"positions": "ordinal", "items": "item", "present": "item"}  # what is asked for: the placeholder it needs


class ListFormat(Struct, frozen=True, forbid_unknown_fields=True):
    """How a list is written: `before`, the items joined by `between`, `after`."""

    before: Text
    item: Text
    between: Text
    after: Text

    def __post_init__(self) -> None:
        if placeholders(self.item) != ["item"]:
            raise ValueError(f"item must hold {{item}} once, got {self.item!r}")

    def write(self, items: list[str]) -> str:
        return self.before + self.between.join(self.item.format(item=item) for item in items) + self.after


class Category(Struct, frozen=True, forbid_unknown_fields=True):
    """Items of one kind, and what the kind is called in a sentence."""

    name: Word
    items: Annotated[tuple[Word, ...], Meta(min_length=2, max_length=1000)]

    def __post_init__(self) -> None:
        check_printable((self.name, *self.items))
        if len(set(self.items)) < len(self.items):
            raise ValueError("it holds an item twice")


class Prompt(Struct, frozen=True, forbid_unknown_fields=True):
    """A template, and what it is asked for: all `positions` of a list, all `items` of the category (one that is
    missing from the list appears zero times), or only the items `present` in the list."""

    template: Text
    ask: Literal["positions", "items", "present"]

    def __post_init__(self) -> None:
        used = placeholders(self.template)
        if unknown := [name for name in used if name not in PLACEHOLDERS]:
            raise ValueError(f"unknown placeholder {unknown[0]!r}; known are {', '.join(PLACEHOLDERS)}")
        needed = {"list", ASKS[self.ask]}
        if missing := "} and {".join(sorted(needed - set(used))):
            raise ValueError(f"a template that asks for {self.ask} needs {{{missing}}}")
        if foreign := ({"ordinal", "item"} - needed) & set(used):
            raise ValueError(f"a template that asks for {self.ask} cannot hold {{{foreign.pop()}}}")


@dataclass(frozen=True)
class PromptBook:
    """How lists are written, what they are made of, what is asked about them, and how numbers are written."""

    list_format: ListFormat
    categories: dict[str, Category]
    prompts: dict[str, Prompt]
    ordinals: tuple[str, ...]
    numbers: tuple[tuple[str, ...], ...]

    @property
    def longest_list(self) -> int:
        """The longest list whose places and counts this book has words for."""
        return min(len(self.ordinals), len(self.numbers) - 1)

    def word(self, number: int) -> str:
        """A number as it stands in a sentence: the first way of writing it that is a word."""
        forms = self.numbers[number]
        return next((form for form in forms if not form.isdigit()), forms[0])

    def select(self, categories: list[str] | None = None, prompts: list[str] | None = None) -> PromptBook:
        """The book with only the named categories and prompts, in the order of the names; None takes all."""
        return replace(
            self,
            categories=_chosen("category", self.categories, categories),
            prompts=_chosen("prompt", self.prompts, prompts),
        )


def placeholders(template: str) -> list[str]:
    """Names in braces; conversions, format specifications and attributes are not names."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{error} in a template; write {{{{ for a brace itself") from None
    if any(specification or conversion for _, _, specification, conversion in parts):
        raise ValueError("a placeholder is a plain name in braces")
    return [name for _, name, _, _ in parts if name is not None]


def check_printable(words: tuple[str, ...]) -> None:
    """Names and items stand in tables, figures and terminals: none of them may hold a line break or an escape."""
    for word in words:
        if not word.isprintable():
            raise ValueError(f"{word!r} holds characters that cannot be printed")


def _chosen(kind: str, available: dict[str, Entry], names: list[str] | None) -> dict[str, Entry]:
    if names is None:
        return available
    known = f"the prompt file has {', '.join(available)}"
    if not names:
        raise ValueError(f"no {kind} was chosen; {known}")
    for name in names:
        if name not in available:
            raise ValueError(f"unknown {kind} {name!r}; {known}")
    return {name: available[name] for name in names}
