"""The prompt book: everything that fixes the texts of an evaluation but the lists themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class ListFormat:
    """How a list is written: `before`, the items joined by `between`, `after`."""

    before: str
    item: str
    between: str
    after: str

    def write(self, items: list[str]) -> str:
        return self.before + self.between.join(self.item.format(item=item) for item in items) + self.after


@dataclass(frozen=True)
class Category:
    """Items of one kind, and what the kind is called in a sentence."""

    name: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Prompt:
    """A template, and what it is asked for: all `positions` of a list, all `items` of the category (one that is
    missing from the list appears zero times), or only the items `present` in the list."""

    template: str
    ask: str


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
