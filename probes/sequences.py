"""Sequences to look at: letters for tokens, the paper's example, and designs that hold every (token, count) once."""

from __future__ import annotations

import string

import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.sizes import Sizes

LETTERS = string.ascii_uppercase + string.ascii_lowercase
REFERENCE = "BBCBBBDEEE"  # the sequence of the paper's attention figures


def letter(token: int, T: int) -> str:
    """How a token is written: A is 0, B is 1, ..., a is 26, ...; beyond z its number; `$` is T."""
    if token == T:
        return "$"
    return LETTERS[token] if token < len(LETTERS) else str(token)


def letters(tokens: Int[Tensor, "pos"], T: int) -> tuple[str, ...]:
    return tuple(letter(int(token), T) for token in tokens)


def parse_sequence(text: str, config: Sizes) -> Int[Tensor, "pos"]:
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


def example(config: Sizes) -> Int[Tensor, "pos"]:
    """The paper's example where it fits; else blocks of equal tokens, each half of what is left, which gives the same
    counts (5, 3, 1, 1) at L = 10."""
    if len(REFERENCE) == config.L and config.T >= 5:
        return parse_sequence(REFERENCE, config)
    blocks: list[int] = []
    while len(blocks) < config.L:
        token = (1 + len(set(blocks))) % config.T
        blocks += [token] * ((config.L - len(blocks) + 1) // 2)
    return torch.tensor(blocks)


def every_count(
    config: Sizes, repeats: int, seed: int
) -> tuple[Int[Tensor, "token count repeat pos"], Int[Tensor, "token count repeat"]]:
    """For every token t and count k, `repeats` sequences with exactly k copies of t, and a position that holds t; the
    last of them for causal models, whose answer there is k.

    The other L - k places follow the paper's sampler, which is its law given that t occurs k times; places are
    shuffled. Balanced by construction: tokens and counts are independent factors.
    """
    T, L = config.T, config.L
    rng = torch.Generator().manual_seed(seed)
    counted = torch.arange(T).repeat_interleave(repeats)  # [token * repeat]
    tables = []
    for count in range(1, L + 1):
        others = _others(L - count, counted, T, rng)
        tables.append(torch.cat([counted[:, None].expand(-1, count), others], 1))
    tokens = torch.stack(tables, 1)  # [token * repeat, count, pos]
    order = torch.rand(tokens.shape, generator=rng).argsort(-1)
    tokens = tokens.gather(-1, order)
    where = order.argmin(-1)  # the place to which the first copy has gone
    if config.causal:
        copies = tokens == counted[:, None, None]
        where = (copies * torch.arange(L)).argmax(-1)
    return (
        tokens.reshape(T, repeats, L, L).transpose(1, 2).contiguous(),
        where.reshape(T, repeats, L).transpose(1, 2).contiguous(),
    )


def _others(n: int, counted: Int[Tensor, "row"], T: int, rng: torch.Generator) -> Int[Tensor, "row other"]:
    """Per row, n tokens by the paper's sampler from the alphabet without the counted one."""
    if n < 2 or T < 3:
        drawn = torch.randint(T - 1, (len(counted), min(n, 1)), generator=rng).expand(-1, n)
    else:
        drawn = task.sample("paper", len(counted), T=T - 1, L=n, generator=rng)
    return drawn + (drawn >= counted[:, None]).long()
