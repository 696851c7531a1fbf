"""The histogram task: sequences, their true counts, and three samplers whose label distribution is known exactly.

In text, token A is 0, B is 1, ..., and a sequence is `BBCBBBDEEE`.

Two of the samplers break a sequence of L positions into blocks of equal tokens. With K positions left, the paper draws
a block length uniformly from 1..K, so the positions left move from K to a uniform value in 0..K-1. Such a chain visits
each value j in 0..L-1 independently with probability 1/(j+1) (the Feller coupling: blocks are the cycles of a uniformly
random permutation of L positions). So all block boundaries are independent coin tosses, drawn at once. The count at a
position is the length of its cycle, which is **exactly** uniform on 1..L.

The published code draws from 1..K-1 while K > 1. Then the positions left never skip 1: one token always occurs exactly
once, and the other L-1 positions are blocks by the paper's rule. Hence P(1) = 2/L, P(k) = 1/L for 2 <= k < L, P(L) = 0.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from itertools import groupby
from math import comb

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from counting_interp.models.config import SAMPLERS as SAMPLERS
from counting_interp.models.protocol import ModelSpec

LETTERS = string.ascii_uppercase + string.ascii_lowercase
REFERENCE = "BBCBBBDEEE"  # the sequence of the paper's attention figures


def histogram(tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
    """How often the token at each position occurs in its sequence."""
    order, begins = _sorted(tokens)
    group = begins.long().cumsum(-1)  # 0, 0, 1, 2, 2, ...
    sizes = torch.zeros_like(group).scatter_add_(-1, group, torch.ones_like(group))
    return torch.empty_like(group).scatter_(-1, order, sizes.gather(-1, group))


def running_count(tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
    """For causal models: how often the token at each position has occurred so far, itself included."""
    order, begins = _sorted(tokens)
    position = torch.arange(tokens.shape[-1], device=tokens.device)
    begin = torch.where(begins, position, 0).cummax(-1).values
    return torch.empty_like(order).scatter_(-1, order, position - begin + 1)


def _sorted(tokens: Int[Tensor, "*batch pos"]) -> tuple[Int[Tensor, "*batch pos"], Bool[Tensor, "*batch pos"]]:
    """The positions sorted by token, and where among them a new token begins (not at the first).

    Comparing all pairs of positions would take L times as much memory.
    """
    ordered, order = tokens.sort(dim=-1, stable=True)
    return order, torch.nn.functional.pad(ordered.diff(dim=-1) != 0, (1, 0))


def sample(sampler: str, n: int, *, T: int, L: int, generator: torch.Generator | int) -> Int[Tensor, "batch pos"]:
    """`n` sequences of `L` tokens from 0..T-1.

    Args:
        sampler: `paper`, `published` or `uniform` (independent tokens).
        generator: a private generator, or a seed for one. The global generator is never touched.
    """
    check_sampler(sampler, T=T, L=L)
    rng = generator if isinstance(generator, torch.Generator) else torch.Generator().manual_seed(generator)
    if sampler == "uniform":
        return torch.randint(T, (n, L), generator=rng)
    tokens = _distinct_tokens(n, T, L, rng).gather(1, _blocks(sampler, n, L, rng))
    return tokens.gather(1, torch.rand(n, L, generator=rng).argsort(1))


def label_distribution(sampler: str, *, T: int, L: int, causal: bool = False) -> Float[Tensor, "count"]:
    """P(count = k) at a position, k = 1..L, exactly (in float64).

    All samplers ignore order. So a token that occurs n times is at this position as its first, second, ..., n-th
    occurrence with equal probability. The count so far is k with probability sum_(n >= k) P(n) / n.
    """
    check_sampler(sampler, T=T, L=L)
    if causal:
        per_occurrence = label_distribution(sampler, T=T, L=L) / torch.arange(1, L + 1)
        return per_occurrence.flip(0).cumsum(0).flip(0)
    if sampler == "paper":
        return torch.full((L,), 1 / L, dtype=torch.float64)
    if sampler == "published":
        shares = torch.full((L,), 1 / L, dtype=torch.float64)
        shares[0], shares[-1] = 2 / L, 0.0
        return shares if L > 2 else torch.tensor([1.0, 0.0], dtype=torch.float64)
    binomial = [comb(L - 1, k - 1) * (T - 1) ** (L - k) / T ** (L - 1) for k in range(1, L + 1)]
    return torch.tensor(binomial, dtype=torch.float64)


def check_sampler(sampler: str, *, T: int, L: int) -> None:
    if sampler not in SAMPLERS:
        raise ValueError(f"the sampler must be one of {', '.join(SAMPLERS)}, got {sampler!r}")
    if not 2 <= L <= T:
        raise ValueError(f"a sequence needs 2 <= L <= T, got L={L}, T={T}")


def _blocks(sampler: str, n: int, L: int, rng: torch.Generator) -> Int[Tensor, "batch pos"]:
    """For each position, the index of its block: 0, 0, 1, 2, 2, ...

    A new block starts where `left` positions remain with probability 1/(left + 1). The published code sets one position
    aside, which always starts a block.
    """
    aside = 1 if sampler == "published" else 0
    left = torch.arange(L - 1 - aside, -1, -1)  # the first position of a block not counted
    starts = torch.rand(n, len(left), generator=rng) * (left + 2) < 1
    starts[:, 0] = False
    if aside:
        starts = torch.cat([starts, torch.ones(n, 1, dtype=torch.bool)], 1)
    return starts.long().cumsum(1)


def _distinct_tokens(n: int, T: int, L: int, rng: torch.Generator) -> Int[Tensor, "batch pos"]:
    """L different tokens per row, in uniformly random order: the first L steps of a Fisher-Yates shuffle."""
    tokens = torch.arange(T).repeat(n, 1)
    rows = torch.arange(n)
    chosen = (torch.rand(n, L, generator=rng, dtype=torch.float64) * (T - torch.arange(L))).long() + torch.arange(L)
    for position in range(L):
        other = chosen[:, position]
        here = tokens[:, position].clone()
        tokens[:, position] = tokens[rows, other]
        tokens[rows, other] = here
    return tokens[:, :L]


def letter(token: int, T: int) -> str:
    """A token as text: A is 0, B is 1, ..., a is 26, ...; beyond z its number; `$` is T."""
    if token == T:
        return "$"
    return LETTERS[token] if token < len(LETTERS) else str(token)


def named(token: int, copies: int = 1) -> str:
    """A token with its number, `Q (16)`, or several copies, `Q x 10 (16)`."""
    times = f" x {copies}" if copies > 1 else ""
    return f"{LETTERS[token]}{times} ({token})" if token < len(LETTERS) else f"{token}{times}"


def in_words(tokens: Iterable[int]) -> str:
    """A sequence with runs of one token joined: `B (1), Q x 9 (16)`."""
    return ", ".join(named(token, len(list(run))) for token, run in groupby(tokens))


def letters(tokens: Int[Tensor, "pos"], T: int) -> tuple[str, ...]:
    return tuple(letter(int(token), T) for token in tokens)


def as_tokens(sequence: Int[Tensor, "*batch pos"] | str | Sequence[int], spec: ModelSpec) -> Int[Tensor, "*batch pos"]:
    """The tokens of a sequence given as letters, numbers or tokens."""
    if isinstance(sequence, str):
        return parse_sequence(sequence, spec)
    return sequence if isinstance(sequence, Tensor) else torch.tensor(list(sequence))


def parse_sequence(text: str, config: ModelSpec) -> Int[Tensor, "pos"]:
    """The tokens of `BBCBBBDEEE`, or of numbers separated by commas or spaces (`1,1,2,...`).

    Raises:
        ValueError: the text is no sequence that this model can read.
    """
    words = text.replace(",", " ").split()
    if all(word.isdecimal() and len(word) < 10 for word in words):
        tokens = [int(word) for word in words]
    elif len(words) == 1 and set(words[0]) <= set(LETTERS):
        tokens = [LETTERS.index(char) for char in words[0]]
    else:
        raise ValueError(f"a sequence is letters ({REFERENCE}) or numbers (1,1,2,...), got {text[:80]!r}")
    if len(tokens) != config.L:
        raise ValueError(f"this model reads sequences of L={config.L} tokens, got {len(tokens)} in {text[:80]!r}")
    if max(tokens) >= config.T:
        raise ValueError(
            f"this model knows the tokens 0..{config.T - 1} (A..{letter(config.T - 1, config.T)}), "
            f"got {letter(max(tokens), -1)} = {max(tokens)}"
        )
    return torch.tensor(tokens)
