"""Sequences of the histogram task, drawn inside the kernel as multisets: distinct tokens and how often each occurs.

The three samplers are those of `models.task`. Block lengths are drawn one after the other, as the recipe says; there
are about log L of them. Only `lin` models read positions, so only they need the shuffle.

A batch is four integer arrays:
    tokens [batch, key]  the distinct tokens of each sequence; in `bos` models `$` comes last
    counts [batch, key]  how often each occurs
    keys   [batch]       how many there are
    places [batch, pos]  which of them stands at each position (`lin` only)
"""

from __future__ import annotations

from models.training.kernels.compiling import compiled
from models.training.kernels.random import below

PAPER, PUBLISHED, UNIFORM = 0, 1, 2


@compiled
def draw_batch(state, sampler, T, bos, shuffle, n, tokens, counts, keys, places):
    """Fill the first `n` sequences of a batch."""
    L = places.shape[1]
    for b in range(n):
        if sampler == UNIFORM:
            used = draw_tokens(state, T, L, tokens[b], counts[b], places[b])
        else:
            used = draw_blocks(state, sampler, T, L, tokens[b], counts[b])
            if shuffle:
                place_blocks(state, used, counts[b], places[b])
        if bos:
            tokens[b, used] = T
            counts[b, used] = 1
            used += 1
        keys[b] = used


@compiled
def draw_blocks(state, sampler, T, L, tokens, counts):
    """Blocks of equal tokens: from K places left, a length from 1..K, or from 1..K-1 as published while K > 1."""
    used = 0
    left = L
    while left > 0:
        longest = left - 1 if sampler == PUBLISHED and left > 1 else left
        length = 1 + below(state, longest)
        tokens[used] = unused_token(state, T, used, tokens)
        counts[used] = length
        used += 1
        left -= length
    return used


@compiled
def unused_token(state, T, used, tokens):
    """A token drawn uniformly from those that are not among the first `used`."""
    while True:
        token = below(state, T)
        fresh = True
        for j in range(used):
            if tokens[j] == token:
                fresh = False
        if fresh:
            return token


@compiled
def place_blocks(state, used, counts, places):
    """The blocks one after the other, then a Fisher-Yates shuffle of the positions."""
    pos = 0
    for j in range(used):
        for _ in range(counts[j]):
            places[pos] = j
            pos += 1
    for pos in range(len(places) - 1, 0, -1):
        other = below(state, pos + 1)
        places[pos], places[other] = places[other], places[pos]


@compiled
def draw_tokens(state, T, L, tokens, counts, places):
    """Independent tokens, collected into a multiset."""
    used = 0
    for pos in range(L):
        used = collect(below(state, T), pos, used, tokens, counts, places)
    return used


@compiled
def collect(token, pos, used, tokens, counts, places):
    """Add one position to a multiset with `used` distinct tokens; returns how many it has then."""
    for j in range(used):
        if tokens[j] == token:
            counts[j] += 1
            places[pos] = j
            return used
    tokens[used] = token
    counts[used] = 1
    places[pos] = used
    return used + 1


@compiled
def collect_batch(sequences, T, bos, tokens, counts, keys, places):
    """The batch that holds given sequences [batch, pos]."""
    for b in range(sequences.shape[0]):
        used = 0
        for pos in range(sequences.shape[1]):
            used = collect(sequences[b, pos], pos, used, tokens[b], counts[b], places[b])
        if bos:
            tokens[b, used] = T
            counts[b, used] = 1
            used += 1
        keys[b] = used
