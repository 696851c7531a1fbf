"""What a language model is asked: the prompt book, its file, lists of items, and every question with its true answer.

The bundled book is `prompts.json`. A user's file has the same form, and every field of it is optional. `list` says how
a list is written; `categories` have a name as it stands in a sentence, and items; `prompts` have a template and what it
asks for; `ordinals` and `numbers` (for each count from zero, its ways of writing) are words. A template may hold
`{list}`, `{length}` (a number word), `{category}`, and `{ordinal}` or `{item}`. Categories and prompts are added to the
bundled ones by name; other fields replace them.

Lists are drawn by the samplers of the toy task. List number i depends on the seed, the sampler and i alone: a longer
run begins with the lists of a shorter one. Categories of equal size are asked about the same patterns, so that a
difference between two categories is not a difference between their lists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeVar

import torch
from msgspec import Meta, Struct, ValidationError, convert

from counting_interp import data
from counting_interp.models import task
from counting_interp.util.errors import printable

# --- the book ---------------------------------------------------------------------------------------------------------

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
        """The longest list whose positions and counts this book has words for."""
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


# --- its file ---------------------------------------------------------------------------------------------------------

BUNDLED = data.prompts()
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
        changes = _read(Path(path))
        for name in ("categories", "prompts"):
            entries = {**getattr(bundled, name), **(getattr(changes, name) or {})}
            setattr(changes, name, entries)
        for name in ("list", "ordinals", "numbers"):
            if getattr(changes, name) is None:
                setattr(changes, name, getattr(bundled, name))
        return _book(changes)
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


def _checked(value: Any, schema: type[Entry], where: str = "") -> Entry:
    """By the schema; msgspec's message ends with the path: `Expected `str`, got `int` - at `$.items[1]``."""
    try:
        return convert(value, schema)
    except ValidationError as error:
        raise ValueError(f"{where}{printable(str(error), 300)}") from None


# --- lists ------------------------------------------------------------------------------------------------------------


def sample_list(sampling: str, index: int, *, items: int, length: int, seed: int) -> list[int]:
    """List number `index`: `length` positions of a category of `items` items."""
    name = f"{seed}/{sampling}/{items}/{length}/{index}"
    generator = torch.Generator().manual_seed(int.from_bytes(sha256(name.encode()).digest()[:7], "big"))
    if sampling == "uniform":  # with replacement: unlike the toy task, a list may be longer than its category
        return torch.randint(items, (length,), generator=generator).tolist()
    return task.sample(sampling, 1, T=items, L=length, generator=generator)[0].tolist()


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """One question about one list.

    Attributes:
        sampling, category, prompt: the cell of the result that it belongs to.
        number: of the list, from 0.
        items: the list.
        target: what is asked about: an item, or a position from 1.
        truth: how often it occurs.
        text: what the model reads.
    """

    sampling: str
    category: str
    prompt: str
    number: int
    items: tuple[str, ...]
    target: str | int
    truth: int
    text: str


def all_queries(book: PromptBook, samplings: Sequence[str], *, lists: int, length: int, seed: int) -> list[Query]:
    """All questions about `lists` lists per category and sampling. Lists are the outermost loop: whatever has been
    answered at some moment covers all cells equally."""
    _check(book, samplings, lists, length)
    return [
        query
        for number in range(lists)
        for sampling in samplings
        for name, category in book.categories.items()
        for query in _queries_of_list(book, sampling, name, category, number, length, seed)
    ]


def _queries_of_list(
    book: PromptBook, sampling: str, name: str, category: Category, number: int, length: int, seed: int
) -> Iterator[Query]:
    positions = sample_list(sampling, number, items=len(category.items), length=length, seed=seed)
    items = tuple(category.items[position] for position in positions)
    words = {"list": book.list_format.write(list(items)), "length": book.word(length), "category": category.name}
    for prompt_name, prompt in book.prompts.items():
        for target, item, slots in _targets(book, prompt, category, items):
            text = prompt.template.format(**words, **slots)
            yield Query(sampling, name, prompt_name, number, items, target, items.count(item), text)


def _targets(
    book: PromptBook, prompt: Prompt, category: Category, items: tuple[str, ...]
) -> Iterator[tuple[str | int, str, dict[str, str]]]:
    """What a prompt asks about a list: the target, the item it means, and the words that name it."""
    if prompt.ask == "positions":
        for position, item in enumerate(items, start=1):
            yield position, item, {"ordinal": book.ordinals[position - 1]}
    else:
        for item in category.items:
            if prompt.ask == "items" or item in items:
                yield item, item, {"item": item}


def _check(book: PromptBook, samplings: Sequence[str], lists: int, length: int) -> None:
    if lists < 1:
        raise ValueError(f"the number of lists must be at least 1, got {lists}")
    if not samplings or len(set(samplings)) < len(samplings):
        raise ValueError(f"name each sampling once, and at least one; got {', '.join(samplings) or 'none'}")
    for sampling in samplings:
        if sampling not in task.SAMPLERS:
            raise ValueError(f"the sampling must be one of {', '.join(task.SAMPLERS)}, got {sampling!r}")
        small = [name for name, category in book.categories.items() if len(category.items) < length]
        if sampling != "uniform" and small:
            raise ValueError(
                f"sampling {sampling!r} needs {length} items or more in a category; {small[0]!r} has fewer"
            )
    if not 2 <= length <= book.longest_list:
        raise ValueError(f"the length of a list must be between 2 and {book.longest_list}, got {length}")
