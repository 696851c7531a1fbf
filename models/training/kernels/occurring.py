"""The tokens that occur in a batch: where the alphabet is large, only these are projected and compared.

A batch of 32 sequences holds about a hundred tokens, whatever T is; the table of all scores grows with T^2. So the
plan's tokens are numbered anew in the order in which they occur, and the columns of E^T are gathered in this order.
"""

from __future__ import annotations

from counting_interp.models.training.kernels.compiling import inlined

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
