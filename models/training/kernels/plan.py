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


@compiled
def plan_first(n, lin, with_bos_row, bos, rows):
    """Rows of the first block, from the batch that the sampler has put into source, counts, keys and places."""
    at = 0
    for b in range(n):
        rows.start[b] = at
        if lin:
            for pos in range(rows.places.shape[1]):
                rows.own[at] = rows.source[b, rows.places[b, pos]]
                at += 1
        else:
            visible = rows.keys[b] - (1 if bos and not with_bos_row else 0)
            for j in range(visible):
                rows.own[at] = rows.source[b, j]
                at += 1
    rows.start[n] = at


@compiled
def plan_second(n, bos, first, rows):
    """Rows of the second block: its sources are all rows of the first, its own rows all of these but that of `$`."""
    at = 0
    for b in range(n):
        rows.start[b] = at
        available = first.start[b + 1] - first.start[b]
        rows.keys[b] = available
        for j in range(available):
            rows.source[b, j] = first.start[b] + j
        for j in range(available - (1 if bos else 0)):
            rows.own[at] = first.start[b] + j
            at += 1
    rows.start[n] = at


@compiled
def plan_labels(n, lin, first_count, first, last, labels, repeats):
    """The true class of each output row, and how many positions it stands for."""
    for b in range(n):
        for r in range(last.start[b], last.start[b + 1]):
            place = r - last.start[b]
            count = first.counts[b, first.places[b, place]] if lin else first.counts[b, place]
            labels[r] = count - first_count
            repeats[r] = 1 if lin else count
