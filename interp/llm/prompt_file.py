"""Reading the prompt book from `prompts.json`, and from a user's own file of the same form.

Fields of a file, all optional in a user's own: `list` (how a list is written), `categories` (a name as it stands in a
sentence, and items), `prompts` (a template and what it asks for), `ordinals`, and `numbers` (for each count from zero,
its ways of writing). Placeholders of a template: `{list}`, `{length}` (a number word), `{category}`, and `{ordinal}`
or `{item}`. Categories and prompts are added to the bundled ones by name; other fields replace them.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Formatter
from typing import Any

from interp.llm.book import Category, ListFormat, Prompt, PromptBook

BUNDLED = Path(__file__).with_name("prompts.json")
FIELDS = ("about", "list", "categories", "prompts", "ordinals", "numbers")
ASKS = {"positions": "ordinal", "items": "item", "present": "item"}  # what is asked for: the placeholder it needs
PLACEHOLDERS = ("list", "length", "category", "ordinal", "item")
MAX_BYTES = 2**20


def read_prompts(path: str | Path | None = None) -> PromptBook:
    """The bundled book, extended by the file at `path` if there is one."""
    fields = _read(BUNDLED)
    if path is None:
        return _book(fields)
    try:
        own = _read(Path(path))
        merged = {**fields, **own}
        for name in ("categories", "prompts"):
            entries = own.get(name, {})
            _require(isinstance(entries, dict), f"{name} must be an object of named entries, got {entries!r}")
            merged[name] = {**fields[name], **entries}
        return _book(merged)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"prompt file {path}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    """A JSON object with known fields. A key that stands twice is refused: the first one would be lost silently."""

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        _require(len(set(keys)) == len(keys), f"the key {max(keys, key=keys.count)!r} stands twice")
        return dict(pairs)

    _require(path.is_file(), "there is no such file")
    _require(path.stat().st_size <= MAX_BYTES, f"it has more than {MAX_BYTES:,} bytes")
    fields = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_duplicates)
    _require(isinstance(fields, dict), f"it must hold a JSON object, got {type(fields).__name__}")
    unknown = [name for name in fields if name not in FIELDS]
    _require(not unknown, f"unknown field {unknown[:1]}; known are {', '.join(FIELDS)}")
    return fields


def _book(fields: dict[str, Any]) -> PromptBook:
    numbers = tuple(_strings(forms, f"numbers[{count}]") for count, forms in enumerate(_list(fields, "numbers")))
    for form in (form for forms in numbers for form in forms):
        _require(form.isalnum(), f"a number is written with letters and digits alone, got {form!r}")
    repeated = {form for forms in numbers for form in forms if sum(form in other for other in numbers) > 1}
    _require(not repeated, f"these stand for two numbers: {', '.join(sorted(repeated))}")
    return PromptBook(
        list_format=_list_format(fields["list"]),
        categories={name: _category(name, entry) for name, entry in fields["categories"].items()},
        prompts={name: _prompt(name, entry) for name, entry in fields["prompts"].items()},
        ordinals=_strings(_list(fields, "ordinals"), "ordinals"),
        numbers=numbers,
    )


def _list_format(entry: Any) -> ListFormat:
    names = {"before", "item", "between", "after"}
    right = isinstance(entry, dict) and set(entry) == names and all(isinstance(text, str) for text in entry.values())
    _require(right, f"list needs the texts {', '.join(sorted(names))}, got {entry!r}")
    _require(_placeholders(entry["item"]) == ["item"], f"list: item must hold {{item}} once, got {entry['item']!r}")
    return ListFormat(**entry)


def _category(name: str, entry: Any) -> Category:
    right = isinstance(entry, dict) and set(entry) == {"name", "items"} and isinstance(entry["name"], str)
    _require(right, f"category {name!r} needs a name and items, got {entry!r}")
    items = _strings(entry["items"], f"the items of category {name!r}")
    _require(len(items) >= 2, f"category {name!r} needs two items or more, got {len(items)}")
    _require(len(set(items)) == len(items), f"category {name!r} holds an item twice")
    return Category(entry["name"], items)


def _prompt(name: str, entry: Any) -> Prompt:
    right = isinstance(entry, dict) and set(entry) == {"ask", "template"} and isinstance(entry["template"], str)
    _require(right, f"prompt {name!r} needs ask and template, got {entry!r}")
    _require(entry["ask"] in ASKS, f"prompt {name!r}: ask must be one of {', '.join(ASKS)}, got {entry['ask']!r}")
    used = _placeholders(entry["template"])
    unknown = [field for field in used if field not in PLACEHOLDERS]
    _require(not unknown, f"prompt {name!r}: unknown placeholder {unknown[:1]}; known are {', '.join(PLACEHOLDERS)}")
    needed = {"list", ASKS[entry["ask"]]}
    missing = "} and {".join(sorted(needed - set(used)))
    _require(not missing, f"prompt {name!r} asks for {entry['ask']}: it needs {{{missing}}}")
    foreign = {"ordinal", "item"} - needed
    _require(not foreign & set(used), f"prompt {name!r} asks for {entry['ask']}: it cannot hold {{{foreign.pop()}}}")
    return Prompt(entry["template"], entry["ask"])


def _placeholders(template: str) -> list[str]:
    """Names in braces; conversions, format specifications and attributes are not names."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"template {template!r}: {error}; write {{{{ for a brace itself") from None
    plain = all(not specification and not conversion for _, _, specification, conversion in parts)
    _require(plain, f"template {template!r}: a placeholder is a plain name in braces")
    return [name for _, name, _, _ in parts if name is not None]


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    _require(isinstance(fields[name], list) and len(fields[name]) >= 2, f"{name} must be a list of two or more")
    return fields[name]


def _strings(values: Any, name: str) -> tuple[str, ...]:
    right = isinstance(values, list) and values and all(isinstance(value, str) and value for value in values)
    _require(bool(right), f"{name} must be a list of texts, got {values!r}")
    return tuple(values)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
