"""Which rows a batch needs, block by block: one per distinct token where equal tokens have equal outputs.

A block reads source rows x (the embedding table in the first block, the rows of the first block in the second) and
computes rows of its own. `lin` models need a row for every position; `dot` and `bos` models one for each distinct
token, and one for `$` where a second block will look at it.
"""

from __future__ import annotations

from collections import namedtuple

from models.training.kernels.compiling import compiled

# start  [batch + 1]    where the rows of each sequence begin; the last entry is their total
# own    [row]          the source row that a row's residual path reads
# source [batch, key]   the source rows that a sequence mixes
# counts [batch, key]   how often each of them occurs
# keys   [batch]        how many there are
# places [batch, pos]   which of them stands at each position (`lin` only)
Rows = namedtuple("Rows", "start own source counts keys places")
# labels [row]  the true class of an output row; repeats [row]: how many positions it stands for
Targets = namedtuple("Targets", "labels repeats")


@compiled
def plan_first(data, at, n, lin, hidden, rows):
    """Rows of the first block for sequences at..at+n of `data`, none for the last key of each if it is
    `hidden`. Returns how many there are.
    """
    row = 0
    for b in range(n):
        rows.start[b] = row
        rows.keys[b] = data.keys[at + b]
        for j in range(rows.keys[b]):
            rows.source[b, j] = data.tokens[at + b, j]
            rows.counts[b, j] = data.counts[at + b, j]
        if lin:
            for pos in range(rows.places.shape[1]):
                rows.places[b, pos] = data.places[at + b, pos]
                rows.own[row] = rows.source[b, rows.places[b, pos]]
                row += 1
        else:
            for j in range(rows.keys[b] - (1 if hidden else 0)):
                rows.own[row] = rows.source[b, j]
                row += 1
    rows.start[n] = row
    return row


@compiled
def plan_second(n, lin, hidden, first, rows):
    """Rows of the second block: its sources are all rows of the first, its own rows all of these but that of `$`.

    Returns how many there are. The places of a `lin` model's second block are 0..L-1, set once and for all.
    """
    row = 0
    for b in range(n):
        rows.start[b] = row
        rows.keys[b] = first.start[b + 1] - first.start[b]
        for j in range(rows.keys[b]):
            rows.source[b, j] = first.start[b] + j
            rows.counts[b, j] = 1 if lin else first.counts[b, j]
        for j in range(rows.keys[b] - (1 if hidden else 0)):
            rows.own[row] = first.start[b] + j
            row += 1
    rows.start[n] = row
    return row


@compiled
def plan_labels(n, lin, first_count, first, last, targets):
    """The true class of each row of the last block, and how many positions it stands for."""
    for b in range(n):
        for r in range(last.start[b], last.start[b + 1]):
            place = r - last.start[b]
            count = first.counts[b, first.places[b, place]] if lin else first.counts[b, place]
            targets.labels[r] = count - first_count
            targets.repeats[r] = 1 if lin else count
