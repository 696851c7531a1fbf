"""Which rows a batch needs, block by block: one per distinct token where equal tokens have equal outputs.

A block reads source rows x (the embedding table in the first block, the rows of the first block in the second) and
computes rows of its own. `lin` models need a row for every position, ordered by position first; `dot` and `bos` models
one for each distinct token of each sequence, and one for `$` where a second block will look at it.

The tokens that occur in a batch: where the alphabet is large, only these are projected and compared.

A batch of 32 sequences holds about a hundred tokens, whatever T is; the table of all scores grows with T^2. So the
plan's tokens are numbered anew in the order in which they occur, and the columns of E^T are gathered in this order.
"""

from __future__ import annotations

from collections import namedtuple

from counting_interp.util.compiled import inlined

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
def plan_places(data, at, n, first_count, rows, targets):
    """Rows of a `lin` model's first block, and their labels, for sequences at..at+n of `data`. The second block has the
    same rows. Returns how many there are.
    """
    L = data.slots.shape[1]
    for b in range(n):
        for pos in range(L):
            j = data.slots[at + b, pos]
            row = pos * n + b
            rows.own[row] = data.tokens[at + b, j]
            targets.labels[row] = data.counts[at + b, j] - first_count
            targets.repeats[row] = 1
    return n * L


@inlined
def plan_tokens(data, at, n, hidden, rows):
    """Rows of the first block of the other models, none for the last key of each sequence if it is `hidden`.

    Returns how many there are.
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
    """The order of sequences by their number of keys: loops over them then run equally often, and are foreseen."""
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
    """Rows of their second block: its sources are all rows of the first, its own rows all of these but that of `$`.

    Returns how many there are.
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
    """The true class of each row of the last block of such a model, and how many positions it stands for."""
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
    """Replaces the tokens in a plan of n sequences and m rows by their numbers; returns how many there are.

    `rows.tokens` holds the token of each number. Small alphabets stay as they are, the number of a token is itself.
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
    """Gives a token the next number unless it has one; returns how many have."""
    if rows.numbers[token] != NOT_SEEN:
        return seen
    rows.numbers[token] = seen
    rows.tokens[seen] = token
    return seen + 1


@inlined
def gather(weights, used, rows):
    """The embeddings of the numbered tokens as the first columns of `weights.occurring`, which is E_t if T is small."""
    if len(rows.numbers) < MANY:
        return
    for i in range(len(weights.E_t)):
        for number in range(used):
            weights.occurring[i, number] = weights.E_t[i, rows.tokens[number]]


@inlined
def scatter(gradient, used, rows):
    """From the gradient of these columns to that of all embeddings: 0 for a token that does not occur."""
    if len(rows.numbers) < MANY:
        return
    for i in range(len(gradient.E_t)):
        row = gradient.E_t[i]
        for token in range(len(row)):
            row[token] = row.dtype.type(0)
        for number in range(used):
            row[rows.tokens[number]] = gradient.occurring[i, number]
