"""Tokens as people write them: A is 0, B is 1, ..., and a sequence is `BBCBBBDEEE`."""

from __future__ import annotations

import string

import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models.protocol import ModelSpec

LETTERS = string.ascii_uppercase + string.ascii_lowercase
REFERENCE = "BBCBBBDEEE"  # the sequence of the paper's attention figures


def letter(token: int, T: int) -> str:
    """How a token is written: A is 0, B is 1, ..., a is 26, ...; beyond z its number; `$` is T."""
    if token == T:
        return "$"
    return LETTERS[token] if token < len(LETTERS) else str(token)


def letters(tokens: Int[Tensor, "pos"], T: int) -> tuple[str, ...]:
    return tuple(letter(int(token), T) for token in tokens)


def parse_sequence(text: str, config: ModelSpec) -> Int[Tensor, "pos"]:
    """`BBCBBBDEEE`, or numbers separated by commas or spaces (`1,1,2,...`), as tokens this model can read."""
    parts = text.replace(",", " ").split()
    if len(parts) > 1 or (parts and parts[0].isdecimal()):
        if not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise ValueError(f"a sequence is letters ({REFERENCE}) or numbers (1,1,2,...), got {text[:80]!r}")
        tokens = [int(part) for part in parts]
    else:
        unknown = [char for char in "".join(parts) if char not in LETTERS]
        if unknown:
            raise ValueError(f"a sequence is letters ({REFERENCE}) or numbers (1,1,2,...), got {text[:80]!r}")
        tokens = [LETTERS.index(char) for char in "".join(parts)]
    if len(tokens) != config.L:
        raise ValueError(f"this model reads sequences of L={config.L} tokens, got {len(tokens)} in {text[:80]!r}")
    if max(tokens) >= config.T:
        raise ValueError(
            f"this model knows the tokens 0..{config.T - 1} (A..{letter(config.T - 1, config.T)}), "
            f"got {letter(max(tokens), -1)} = {max(tokens)}"
        )
    return torch.tensor(tokens)
