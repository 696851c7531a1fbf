"""Mixing weights of `dot` and `bos` models: for each row, how much of each source of its sequence it takes up.

weight_j = n_j score_j, or n_j exp(score_j) / Z with softmax: n_j positions hold source j. Shapes: [row, key], keys
padded to whole vectors; padding has the count 0.
The scores of the first block depend on two tokens only, so they are looked up in a table [vocab, vocab].
"""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels.compiling import inlined
from counting_interp.models.training.kernels.lanes import (
    LANES,
    add,
    add_times,
    exp_down,
    fill,
    larger,
    largest_of,
    load,
    multiply,
    store,
    subtract,
    sum_of,
)
from counting_interp.models.training.kernels.products import add_scaled, clear, dot

NEVER = -1e30  # the score of padding: never the largest


@inlined
def scale(d, like):
    """1 / sqrt(d), by which scores are scaled, in the precision of `like`."""
    return like.dtype.type(1.0 / np.sqrt(d))


@inlined
def look_up_scores(table, scale, n, rows, scores):
    never = fill(scores.dtype.type(NEVER))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for at in range(0, scores.shape[1], LANES):
                store(never, scores[r], at)
            for j in range(rows.keys[b]):
                scores[r, j] = scale * table[own, rows.source[b, j]]


@inlined
def look_up_scores_back(d_scores, scale, n, rows, d_table):
    clear(d_table, len(d_table))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                d_table[own, rows.source[b, j]] += scale * d_scores[r, j]


@inlined
def compare_rows(q, k, scale, n, rows, scores):
    """Scores of the second block: every row with every other of its sequence."""
    never = fill(scores.dtype.type(NEVER))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            for at in range(0, scores.shape[1], LANES):
                store(never, scores[r], at)
            for j in range(rows.keys[b]):
                scores[r, j] = scale * dot(q[rows.own[r]], k[rows.source[b, j]])


@inlined
def compare_rows_back(d_scores, q, k, scale, sources, n, rows, d_q, d_k):
    clear(d_q, sources)
    clear(d_k, sources)
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                source = rows.source[b, j]
                g = scale * d_scores[r, j]
                add_scaled(d_q[own], g, k[source])
                add_scaled(d_k[source], g, q[own])


@inlined
def weigh(n, rows, softmax, weights):
    """Scores to weights, in place."""
    width = weights.shape[1]
    one, zero = weights.dtype.type(1), weights.dtype.type(0)
    for b in range(n):
        counts = rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row = weights[r]
            if not softmax:
                for at in range(0, width, LANES):
                    store(multiply(load(row, at), load(counts, at)), row, at)
                continue
            most = load(row, 0)
            for at in range(LANES, width, LANES):
                most = larger(most, load(row, at))
            highest = fill(largest_of(most))
            total = fill(zero)
            for at in range(0, width, LANES):
                share = multiply(load(counts, at), exp_down(subtract(load(row, at), highest)))
                store(share, row, at)
                total = add(total, share)
            inverse = fill(one / sum_of(total))
            for at in range(0, width, LANES):
                store(multiply(load(row, at), inverse), row, at)


@inlined
def weigh_back(n, rows, softmax, weights, d_weights):
    """Gradients of weights to gradients of scores, in place."""
    width = weights.shape[1]
    zero = weights.dtype.type(0)
    for b in range(n):
        counts = rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row, d_row = weights[r], d_weights[r]
            if not softmax:
                for at in range(0, width, LANES):
                    store(multiply(load(d_row, at), load(counts, at)), d_row, at)
                continue
            product = fill(zero)
            for at in range(0, width, LANES):
                product = add_times(product, load(row, at), load(d_row, at))
            mean = fill(sum_of(product))
            for at in range(0, width, LANES):
                store(multiply(load(row, at), subtract(load(d_row, at), mean)), d_row, at)
