"""How a tokenizer writes the numbers: all token sequences that say a count, as one tree.

A count has several ways of writing (`3`, `three`), each with and without a space in front, and a tokenizer may split
any of them. After a prompt that ends in a space, ` three` and `three` are both possible next words; both are in the
tree. What follows the prompt is tokenized in its place where the prompt's own tokens stay what they are, and after a
line break where they would not (`appears ` and `three` together are `appears` and ` three` to many tokenizers).

A node may say a count and be the beginning of another: `1` of `10`, where digits are tokens of their own. So there a
count is said only if the next token does not go on with a letter or digit (`goes_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from counting_interp.util.errors import InterpError

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
