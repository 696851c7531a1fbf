"""The sequences of an epoch as multisets, and the plan of a batch: which rows each block computes.

A multiset is the distinct tokens of a sequence and how often each occurs. The three samplers are those of
`models.task`. Block lengths are drawn one after the other, as the recipe says; there are about log L of them. Only
models that read positions need the shuffle.

Random numbers come from splitmix64, whose state is one counter. The stream of an epoch is a pure function of
(seed, epoch), so a run resumes at any epoch without a stored state.

A block reads source rows x: the embedding table in the first block, the rows of the first block in the second. `lin`
models need a row for every position, ordered by position first. `dot` and `bos` models need one row for each distinct
token of each sequence, and one for `$` where a second block reads it.

A batch of 32 sequences holds about a hundred tokens, whatever T is, and the table of all scores grows with T^2. So in
large alphabets only the tokens that occur in the batch are projected and compared. They are numbered in the order in
which they occur, and the columns of E^T are gathered in this order.
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
# slots  [batch, pos]  which of them is at each position, for models that read positions
Multisets = namedtuple("Multisets", "tokens counts keys slots")

PAPER, PUBLISHED, UNIFORM = 0, 1, 2


@compiled
def draw(state, seed, epoch, sampler, T, bos, shuffle, data):
    """Fill `data` with the sequences of an epoch, which depend on seed, epoch and sampler; `state` is scratch space."""
    open_stream(state, seed, epoch)
    L = data.slots.shape[1]
    for b in range(len(data.keys)):
        tokens, counts, slots = data.tokens[b], data.counts[b], data.slots[b]
        if sampler == UNIFORM:
            used = draw_tokens(state, T, L, tokens, counts, slots)
        else:
            used = draw_blocks(state, sampler, T, L, tokens, counts)
            if shuffle:
                shuffle_blocks(state, used, counts, slots)
        data.keys[b] = close(used, T, bos, tokens, counts)


@inlined
def close(used, T, bos, tokens, counts):
    """Append `$` to `used` distinct tokens where the model has it; returns the number of keys."""
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
def shuffle_blocks(state, used, counts, slots):
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


# start  [batch + 1]    where the rows of each sequence begin; the last entry is their total
# own    [row]          the source row that a row's residual path reads
# source [batch, key]   the source rows that a sequence mixes
# counts [batch, key]   how often each of them occurs, as real numbers; 0 for padding
# keys   [batch]        how many there are
# order  [batch]        the sequence that stands in each row: sequences are sorted by their keys
# first  [key + 2]      room for sorting
# numbers, tokens [vocab]  for the first block, the numbering of the tokens that occur: see `number_tokens`
# `lin` models use `own` and the numbering alone.
Rows = namedtuple("Rows", "start own source counts keys order first numbers tokens")
# labels  [row]  the true class of an output row
# repeats [row]  how many positions it stands for
# weights, totals, chosen [row]  room for the loss: see `cross_entropy`
Targets = namedtuple("Targets", "labels repeats weights totals chosen")


@inlined
def plan_positions(data, at, n, first_count, rows, targets):
    """Plan the rows of both blocks of a `lin` model, and their labels, for sequences at..at+n of `data`.

    Each position has a row more than there are sequences, which counts for nothing. Without it the rows of a sequence
    would often be a power of two apart, and the processor's cache cannot hold many such.

    Returns the number of rows.
    """
    L = data.slots.shape[1]
    for pos in range(L):
        first = pos * (n + 1)
        for b in range(n):
            j = data.slots[at + b, pos]
            rows.own[first + b] = data.tokens[at + b, j]
            targets.labels[first + b] = data.counts[at + b, j] - first_count
            targets.repeats[first + b] = 1
        rows.own[first + n], targets.labels[first + n], targets.repeats[first + n] = 0, 0, 0
    return (n + 1) * L


@inlined
def plan_tokens(data, at, n, hidden, rows):
    """Plan the rows of the first block of other models, without the last key of each sequence if it is `hidden`.

    Returns the number of rows.
    """
    sort_by_keys(data.keys, at, n, rows)
    row = 0
    for b in range(n):
        rows.start[b] = row
        sequence = at + rows.order[b]
        keys = data.keys[sequence]
        rows.keys[b] = keys
        for j in range(keys):
            rows.source[b, j] = data.tokens[sequence, j]
            rows.counts[b, j] = data.counts[sequence, j]
        for j in range(keys, rows.counts.shape[1]):
            rows.counts[b, j] = 0
        for j in range(keys - (1 if hidden else 0)):
            rows.own[row] = rows.source[b, j]
            row += 1
    rows.start[n] = row
    return row


@inlined
def sort_by_keys(keys, at, n, rows):
    """Sort sequences by their number of keys: the processor can then predict how often loops over the keys run."""
    first = rows.first
    for k in range(len(first)):
        first[k] = 0
    for b in range(n):
        first[keys[at + b] + 1] += 1
    for k in range(1, len(first)):
        first[k] += first[k - 1]
    for b in range(n):
        k = keys[at + b]
        rows.order[first[k]] = b
        first[k] += 1


@inlined
def plan_rows(n, hidden, first, rows):
    """Plan the rows of the second block: its sources are all rows of the first, its rows all of these without `$`.

    Returns the number of rows.
    """
    row = 0
    for b in range(n):
        rows.start[b] = row
        rows.keys[b] = first.keys[b]
        for j in range(rows.counts.shape[1]):
            rows.counts[b, j] = first.counts[b, j]
        for j in range(rows.keys[b]):
            rows.source[b, j] = first.start[b] + j
        for j in range(rows.keys[b] - (1 if hidden else 0)):
            rows.own[row] = first.start[b] + j
            row += 1
    rows.start[n] = row
    return row


@inlined
def plan_labels(data, at, n, first_count, order, start, targets):
    """The true class of each row of the last block of `dot` and `bos` models, and how many positions it stands for."""
    for b in range(n):
        for r in range(start[b], start[b + 1]):
            count = data.counts[at + order[b], r - start[b]]
            targets.labels[r] = count - first_count
            targets.repeats[r] = count


# With fewer tokens nearly all of them occur in a batch of the published size, and numbering costs more than it saves.
MANY = 96
NOT_SEEN = -1


@inlined
def number_tokens(n, m, lin, rows):
    """Replace the tokens in a plan of n sequences and m rows by their numbers; returns how many there are.

    `rows.tokens` holds the token of each number. In small alphabets the number of a token is itself.
    """
    vocab = len(rows.numbers)
    if vocab < MANY:
        return vocab
    for token in range(vocab):
        rows.numbers[token] = NOT_SEEN
    seen = 0
    for r in range(m):
        seen = see(rows.own[r], seen, rows)
        rows.own[r] = rows.numbers[rows.own[r]]
    if not lin:
        for b in range(n):
            for j in range(rows.keys[b]):
                seen = see(rows.source[b, j], seen, rows)
                rows.source[b, j] = rows.numbers[rows.source[b, j]]
    return seen


@inlined
def see(token, seen, rows):
    """Give a token the next number unless it has one; returns how many have one."""
    if rows.numbers[token] != NOT_SEEN:
        return seen
    rows.numbers[token] = seen
    rows.tokens[seen] = token
    return seen + 1


@inlined
def gather_embeddings(weights, used, rows):
    """Copy the embeddings of the numbered tokens to `weights.occurring`, which is E_t if T is small."""
    if len(rows.numbers) < MANY:
        return
    for i in range(len(weights.E_t)):
        for number in range(used):
            weights.occurring[i, number] = weights.E_t[i, rows.tokens[number]]


@inlined
def scatter_gradient(gradient, used, rows):
    """From the gradient of these columns to that of all embeddings: 0 for a token that does not occur."""
    if len(rows.numbers) < MANY:
        return
    for i in range(len(gradient.E_t)):
        row = gradient.E_t[i]
        for token in range(len(row)):
            row[token] = row.dtype.type(0)
        for number in range(used):
            row[rows.tokens[number]] = gradient.occurring[i, number]
