"""Sequences of the histogram task, drawn inside the kernel as multisets: distinct tokens and how often each occurs.

The three samplers are those of `models.task`. Block lengths are drawn one after the other, as the recipe says; there
are about log L of them. Only `lin` models read positions, so only they need the shuffle.

Random numbers inside a kernel: splitmix64, whose whole state is one counter.

The state of a stream is an array of one uint64, so that a kernel can advance it. The stream of an epoch is a pure
function of (seed, epoch): a run resumes at any epoch without having stored anything.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from counting_interp.util.compiled import compiled, inlined

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
LOW = np.uint64(0xFFFFFFFF)


@inlined
def next_uint64(state):
    """The next 64 random bits."""
    state[0] += GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    return z ^ (z >> np.uint64(31))


@inlined
def below(state, n):
    """An integer drawn uniformly from 0..n-1, exactly (Lemire's multiplication with rejection)."""
    size = np.uint64(n)
    product = (next_uint64(state) >> np.uint64(32)) * size
    if (product & LOW) < size:
        threshold = (np.uint64(1 << 32) - size) % size
        while (product & LOW) < threshold:
            product = (next_uint64(state) >> np.uint64(32)) * size
    return np.int64(product >> np.uint64(32))


@inlined
def open_stream(state, seed, epoch):
    """Set `state` to the beginning of the stream that belongs to (seed, epoch)."""
    state[0] = np.uint64(seed)
    state[0] = next_uint64(state) ^ (np.uint64(epoch) * MIX_2)
    state[0] = next_uint64(state)


# tokens [batch, key]  the distinct tokens of each sequence; in `bos` models `$` comes last
# counts [batch, key]  how often each occurs
# keys   [batch]       how many there are
# slots  [batch, pos]  which of them stands at each position (`lin` only)
Multisets = namedtuple("Multisets", "tokens counts keys slots")

PAPER, PUBLISHED, UNIFORM = 0, 1, 2


@compiled
def draw(state, seed, epoch, sampler, T, bos, shuffle, data):
    """Fill `data` with the fresh sequences of an epoch, which depend on seed, epoch and sampler; `state` is room."""
    open_stream(state, seed, epoch)
    L = data.slots.shape[1]
    for b in range(len(data.keys)):
        tokens, counts, slots = data.tokens[b], data.counts[b], data.slots[b]
        if sampler == UNIFORM:
            used = draw_tokens(state, T, L, tokens, counts, slots)
        else:
            used = draw_blocks(state, sampler, T, L, tokens, counts)
            if shuffle:
                place_blocks(state, used, counts, slots)
        data.keys[b] = close(used, T, bos, tokens, counts)


@inlined
def close(used, T, bos, tokens, counts):
    """Put `$` behind `used` distinct tokens where the model has one; returns the number of keys."""
    if not bos:
        return used
    tokens[used] = T
    counts[used] = 1
    return used + 1


@inlined
def draw_blocks(state, sampler, T, L, tokens, counts):
    """Blocks of equal tokens: from K positions left, a length from 1..K, or from 1..K-1 as published while K > 1."""
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


@inlined
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


@inlined
def place_blocks(state, used, counts, slots):
    """The blocks one after the other, then a Fisher-Yates shuffle of the positions."""
    pos = 0
    for j in range(used):
        for _ in range(counts[j]):
            slots[pos] = j
            pos += 1
    for pos in range(len(slots) - 1, 0, -1):
        other = below(state, pos + 1)
        slots[pos], slots[other] = slots[other], slots[pos]


@inlined
def draw_tokens(state, T, L, tokens, counts, slots):
    """Independent tokens, collected into a multiset."""
    used = 0
    for pos in range(L):
        used = collect(below(state, T), pos, used, tokens, counts, slots)
    return used


@inlined
def collect(token, pos, used, tokens, counts, slots):
    """Add one position to a multiset with `used` distinct tokens; returns how many it has then."""
    for j in range(used):
        if tokens[j] == token:
            counts[j] += 1
            slots[pos] = j
            return used
    tokens[used] = token
    counts[used] = 1
    slots[pos] = used
    return used + 1


@compiled
def collect_all(sequences, T, bos, data):
    """Fill `data` with given sequences [batch, pos]."""
    for b in range(len(sequences)):
        tokens, counts, slots = data.tokens[b], data.counts[b], data.slots[b]
        used = 0
        for pos in range(sequences.shape[1]):
            used = collect(sequences[b, pos], pos, used, tokens, counts, slots)
        data.keys[b] = close(used, T, bos, tokens, counts)
