"""Pre-activations of the hidden units from mixing weights: f[own] + sum_j weight_j f[source_j], f = x W_in.

The feed-forward layer's first product commutes with the mixing, so it was done before, once for each source.

In the first block the sources are the tokens of the alphabet. There, weights are spread over the whole alphabet,
`spread` [row, vocab], residual path included, and mixing is a matrix product, which BLAS does faster than any loop that
visits only the tokens that occur. In the second block the sources of a sequence are its own few rows, and loops win.
"""

from __future__ import annotations

from models.training.kernels.compiling import compiled
from models.training.kernels.products import add_scaled, clear, dot


@compiled
def spread_weights(weights, n, rows, spread):
    """Weights [row, key] and the residual path's 1, over the alphabet."""
    one = spread.dtype.type(1)
    clear(spread, rows.start[n])
    for b in range(n):
        keys, source = rows.keys[b], rows.source[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row = spread[r]
            for j in range(keys):
                row[source[j]] = weights[r, j]
            row[rows.own[r]] += one


@compiled
def spread_weights_back(d_spread, n, rows, d_weights):
    for b in range(n):
        keys, source = rows.keys[b], rows.source[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            row = d_spread[r]
            for j in range(keys):
                d_weights[r, j] = row[source[j]]


@compiled
def mix_rows(qkf, at, weights, n, rows, hidden):
    """Second block: f are the columns of `qkf` from `at` on."""
    width = hidden.shape[1]
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            f = qkf[rows.own[r]]
            for i in range(width):
                hidden[r, i] = f[at + i]
            for j in range(rows.keys[b]):
                add_scaled(hidden[r], weights[r, j], qkf[rows.source[b, j], at : at + width])


@compiled
def mix_rows_back(d_hidden, qkf, at, weights, n, rows, d_qkf, d_weights):
    """Adds to the gradient of f; sets that of the weights."""
    width = d_hidden.shape[1]
    one = weights.dtype.type(1)
    for b in range(n):
        for r in range(rows.start[b], rows.start[b + 1]):
            add_scaled(d_qkf[rows.own[r], at : at + width], one, d_hidden[r])
            for j in range(rows.keys[b]):
                source = rows.source[b, j]
                add_scaled(d_qkf[source, at : at + width], weights[r, j], d_hidden[r])
                d_weights[r, j] = dot(d_hidden[r], qkf[source, at : at + width])
