"""Every question of an evaluation: its text, and the true answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from counting_interp.interp.llm.book import Category, Prompt, PromptBook
from counting_interp.interp.llm.lists import sample_list
from counting_interp.models import task


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
    answered at some moment covers all cells alike."""
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
    places = sample_list(sampling, number, items=len(category.items), length=length, seed=seed)
    items = tuple(category.items[place] for place in places)
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
