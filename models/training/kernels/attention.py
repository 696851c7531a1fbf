"""Mixing weights of `dot` and `bos` models: for each row, how much of each source of its sequence it takes up.

weight_j = n_j score_j, or n_j exp(score_j) / Z with softmax: n_j positions hold source j. Shapes: [row, key].
The scores of the first block depend on two tokens only, so they are looked up in a table [vocab, vocab].
"""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled
from models.training.kernels.exponential import exp_down
from models.training.kernels.products import add_scaled, clear, dot


@compiled
def scale(x):
    """1 / sqrt(d), by which scores are scaled, in the precision of x [source, d_model]."""
    return x.dtype.type(1.0 / np.sqrt(x.shape[1]))


@compiled
def look_up_scores(table, scale, n, rows, scores):
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                scores[r, j] = scale * table[own, rows.source[b, j]]


@compiled
def look_up_scores_back(d_scores, scale, n, rows, d_table):
    clear(d_table, len(d_table))
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                d_table[own, rows.source[b, j]] += scale * d_scores[r, j]


@compiled
def compare_rows(qkf, d, scale, n, rows, scores):
    """Scores of the second block: every row with every other of its sequence; q and k are columns of `qkf`."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            q = qkf[rows.own[r], :d]
            for j in range(rows.keys[b]):
                scores[r, j] = scale * dot(q, qkf[rows.source[b, j], d : 2 * d])


@compiled
def compare_rows_back(d_scores, qkf, d, scale, n, rows, d_qkf):
    """Adds to the gradients of q and k."""
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            own = rows.own[r]
            for j in range(rows.keys[b]):
                source = rows.source[b, j]
                g = scale * d_scores[r, j]
                add_scaled(d_qkf[own, :d], g, qkf[source, d : 2 * d])
                add_scaled(d_qkf[source, d : 2 * d], g, qkf[own, :d])


@compiled
def weigh(n, rows, softmax, weights):
    """Scores to weights, in place."""
    real = weights.dtype.type
    for b in range(n):
        keys, counts = rows.keys[b], rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row = weights[r]
            if not softmax:
                for j in range(keys):
                    row[j] *= real(counts[j])
                continue
            highest = row[0]
            for j in range(1, keys):
                highest = max(highest, row[j])
            total = real(0)
            for j in range(keys):
                row[j] = real(counts[j]) * exp_down(row[j] - highest)
                total += row[j]
            inverse = real(1) / total
            for j in range(keys):
                row[j] *= inverse


@compiled
def weigh_back(n, rows, softmax, weights, d_weights):
    """Gradients of weights to gradients of scores, in place."""
    real = weights.dtype.type
    for b in range(n):
        keys, counts = rows.keys[b], rows.counts[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row, d_row = weights[r], d_weights[r]
            if not softmax:
                for j in range(keys):
                    d_row[j] *= real(counts[j])
                continue
            mean = real(0)
            for j in range(keys):
                mean += row[j] * d_row[j]
            for j in range(keys):
                d_row[j] = row[j] * (d_row[j] - mean)
