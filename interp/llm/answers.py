"""Answers: from a next-token distribution, or from a text, to a count; and kept on disk.

A count has several ways of writing (`3`, `three`), each with and without a space in front, and a tokenizer may split
any of them. All token sequences that say a count form one tree (`number_tree`). After a prompt that ends in a space,
` three` and `three` are both possible next words; both are in the tree. A number is tokenized behind the prompt, if
that leaves the prompt's tokens unchanged, and after a line break otherwise. To many tokenizers, `appears ` and `three`
together are `appears` and ` three`.

P(count) is the sum, over the token sequences that say the count, of the probability of the whole sequence. Where more
tokens would make it another count (`1` of `10`), it is multiplied by the probability that the next token does not go on
with a letter or digit. Each node of the tree that has children needs one more run of the model. Nodes are opened in
order of their probability, until the most probable count is certain and closed nodes hold less than one percent. The
prediction is exact; the probabilities are, to within that percent.

The paper's own figures read the number that a generated text begins with (`parse_count`).

At temperature zero an answer depends on the model and the text alone, so the text is the key of the `Store`. That is a
SQLite file in which every batch is one transaction. A run that was killed at any moment resumes with the missing batch.
A run with more lists, another prompt or another category asks only what is new. What must agree between two runs on one
file (the model's weights, their type, how numbers are written) is stored in it and compared.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from jaxtyping import Bool, Float
from msgspec import Meta, convert
from msgspec.json import decode
from torch import Tensor

from counting_interp.util.errors import InterpError, printable
from counting_interp.util.plain_json import to_json

# --- how a tokenizer writes the numbers -------------------------------------------------------------------------------

ANCHORS = ("\n", ":", "=", ")")


@dataclass
class Node:
    """The tokens said so far, the count they say if any, and the tokens that may follow."""

    path: tuple[int, ...] = ()
    count: int | None = None
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def ambiguous(self) -> bool:
        """Whether a count is said here that more tokens would turn into another one, here or further down."""
        here = self.count is not None and bool(self.children)
        return here or any(child.ambiguous for child in self.children.values())


def number_tree(tokenizer: Any, prompt: str, numbers: Sequence[Sequence[str]]) -> Node:
    """The tree for prompts that end as `prompt` does; `numbers[count]` are the ways of writing a count."""
    root = Node()
    for count, forms in enumerate(numbers):
        paths = {_path(tokenizer, prompt, text) for form in forms for text in (form, " " + form)} - {()}
        if not paths:
            raise InterpError(f"this tokenizer cannot write {count} in any of the ways {', '.join(forms)}")
        for path in sorted(paths):
            _insert(root, path, count)
    return root


def goes_on(tokenizer: Any, digit: int) -> Bool[Tensor, "vocab"]:
    """Which tokens begin with a letter or digit when they stand right behind the token of a digit."""
    before = tokenizer.decode([digit], skip_special_tokens=True)
    pairs = [[digit, token] for token in range(len(tokenizer))]
    texts = (text[len(before) :] for text in tokenizer.batch_decode(pairs, skip_special_tokens=True))
    return torch.tensor([text[:1].isalnum() for text in texts])


def encode_prompt(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a prompt, with a begin-of-text token where the tokenizer adds one, never with an end of text."""
    tokens = list(tokenizer(text)["input_ids"])
    while len(tokens) > 1 and tokens[-1] == tokenizer.eos_token_id:
        tokens.pop()
    return tokens


def _path(tokenizer: Any, prompt: str, text: str) -> tuple[int, ...]:
    """The tokens of `text` behind the prompt, or behind the first anchor that leaves them alone; none if unwritable."""

    def plain(words: str) -> list[int]:
        return list(tokenizer(words, add_special_tokens=False)["input_ids"])

    behind = [(prompt, lambda words: encode_prompt(tokenizer, words)), *((anchor, plain) for anchor in ANCHORS)]
    for before, encode in behind:
        path = _continuation(encode, before, text)
        if path:
            return () if tokenizer.unk_token_id in path else path
    return ()


def _continuation(encode: Callable[[str], list[int]], before: str, text: str) -> tuple[int, ...]:
    """The tokens that `text` adds behind `before`, or none if it changes those of `before` itself."""
    alone, together = encode(before), encode(before + text)
    return tuple(together[len(alone) :]) if together[: len(alone)] == alone else ()


def _insert(root: Node, path: tuple[int, ...], count: int) -> None:
    node = root
    for token in path:
        node = node.children.setdefault(token, Node((*node.path, token)))
    if node.count not in (None, count):
        raise InterpError(f"to this tokenizer, {node.count} and {count} are the same tokens {list(path)}")
    node.count = count


# --- the count in a next-token distribution ---------------------------------------------------------------------------

CLOSED_AT_MOST = 0.01

NextToken = Callable[[Sequence[Sequence[int]]], Float[Tensor, "batch vocab"]]


def read_counts(
    next_token: NextToken,
    prompts: Sequence[Sequence[int]],
    trees: Sequence[Node],
    counts: int,
    goes_on: Bool[Tensor, "vocab"] | None,
) -> list[tuple[float, ...]]:
    """Per prompt the probabilities of the counts, which add up to less than one, since a model may say other things.
    The prompts of each round go through the model together.

    Args:
        next_token: token sequences to the probabilities of their next token.
        trees: per prompt, the ways of saying a number behind it.
        counts: how many counts there are: 0..counts-1.
        goes_on: which tokens begin with a letter or digit; needed where a tree is ambiguous.
    """
    searches = [_Search(tree, counts, goes_on) for tree in trees]
    pending = list(range(len(prompts)))
    while pending:
        nodes = [searches[row].next_node() for row in pending]
        shares = next_token([[*prompts[row], *node.path] for row, node in zip(pending, nodes, strict=True)])
        for row, node, share in zip(pending, nodes, shares, strict=True):
            searches[row].open(node, share)
        pending = [row for row in pending if not searches[row].decided]
    return [tuple(search.said) for search in searches]


class _Search:
    """The state of one prompt: what has been said for certain, and the closed nodes with their probabilities."""

    def __init__(self, tree: Node, counts: int, goes_on: Bool[Tensor, "vocab"] | None) -> None:
        self.said = [0.0] * counts
        self.closed: list[tuple[float, Node]] = [(1.0, tree)]
        self.goes_on = goes_on

    @property
    def decided(self) -> bool:
        left = sum(share for share, _ in self.closed)
        best, second = sorted(self.said, reverse=True)[:2]
        return not self.closed or left < min(CLOSED_AT_MOST, best - second)

    def next_node(self) -> Node:
        return max(self.closed, key=lambda entry: entry[0])[1]

    def open(self, node: Node, shares: Float[Tensor, "vocab"]) -> None:
        """Count what the node says, and reach its children."""
        (reached,) = (share for share, other in self.closed if other is node)
        self.closed = [(share, other) for share, other in self.closed if other is not node]
        if node.count is not None:
            assert self.goes_on is not None, "a node that says a count and has children makes its tree ambiguous"
            self.said[node.count] += reached * (1 - float(shares[: len(self.goes_on)][self.goes_on].sum()))
        for share, child in zip(shares[list(node.children)].tolist(), node.children.values(), strict=True):
            share *= reached
            if child.children:
                self.closed.append((share, child))
            else:
                assert child.count is not None, "a leaf says a count"
                self.said[child.count] += share


# --- the count in a text ----------------------------------------------------------------------------------------------

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


# --- answers on disk --------------------------------------------------------------------------------------------------

Probabilities = Annotated[tuple[Annotated[float, Meta(ge=0, le=1.001)], ...], Meta(min_length=2)]  # 1.001: rounding
NAME = "answers.sqlite"
LAYOUT = """
CREATE TABLE IF NOT EXISTS identity (field TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    text TEXT PRIMARY KEY,
    probabilities TEXT NOT NULL,
    generated TEXT
);
"""


@dataclass(frozen=True)
class Answer:
    """What a model says to one text.

    Attributes:
        probabilities: of the counts 0..length, from the next-token distribution.
        generated: the greedy continuation, or None if it was not asked for.
    """

    probabilities: tuple[float, ...]
    generated: str | None

    @property
    def count(self) -> int:
        """The most probable count."""
        return max(range(len(self.probabilities)), key=self.probabilities.__getitem__)


class Store:
    """The answers of one model, in memory and, if there is a folder, on disk.

    Args:
        folder: where the file lies; None keeps answers in memory.
        identity: what must be the same in all runs that share the file.
    """

    def __init__(self, folder: Path | None, identity: dict[str, Any]) -> None:
        self.path = None if folder is None else folder / NAME
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._connect()
            self._check({field: json.dumps(value, sort_keys=True) for field, value in identity.items()})
            rows = self._database.execute("SELECT text, probabilities, generated FROM answers")
            self.answers = dict(_checked(*row) for row in rows)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}; choose another output folder"
            raise InterpError(f"{printable(str(folder))} {reason}") from error
        except (sqlite3.Error, ValueError) as error:
            raise InterpError(f"{self._shown}: {_reason(error)}") from error

    def _connect(self) -> None:
        self._database = sqlite3.connect(self.path or ":memory:", timeout=0)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")  # two runs on one file would repeat each other's work
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(LAYOUT)

    def _check(self, identity: dict[str, str]) -> None:
        stored = dict(self._database.execute("SELECT field, value FROM identity"))
        for name in sorted(stored.keys() | identity.keys()) if stored else ():
            if stored.get(name) != identity.get(name):
                before, now = (printable(str(values.get(name)), 80) for values in (stored, identity))
                raise ValueError(
                    f"its answers were given with {name} = {before}, this run has {now}; use another output folder"
                )
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO identity VALUES (?, ?)", identity.items())

    def add(self, answers: Iterable[tuple[str, Answer]]) -> None:
        """All of them, or none."""
        new = dict(answers)
        rows = [(text, to_json(answer.probabilities), answer.generated) for text, answer in new.items()]
        try:
            for row in rows:
                _checked(*row)
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, ValueError) as error:
            raise InterpError(f"{self._shown}: {_reason(error)}") from error
        self.answers.update(new)

    @property
    def _shown(self) -> str:
        return "answers in memory" if self.path is None else printable(str(self.path))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(text: Any, shares: Any, generated: Any) -> tuple[str, Answer]:
    """A row of the file, which anybody may have changed: probabilities of two counts or more, and a text or none."""
    try:
        probabilities = decode(shares, type=Probabilities)
        return convert(text, str), Answer(probabilities, convert(generated, str | None))
    except (TypeError, ValueError) as error:  # msgspec's own are among them
        row = printable(repr(text), 80)
        raise ValueError(f"the answer to {row} cannot be used: {printable(str(error), 120)}; delete that row") from None


def _reason(error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full; make room, and the same command resumes"
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return "another run is writing to this folder; wait for it, or use another one"
    if isinstance(error, sqlite3.DatabaseError):
        return f"this is not a readable file of answers ({error}); move it away to start again"
    return str(error)
