"""Hidden units of `dot` and `bos` models: relu(f[own] + sum_j weight_j f[source_j] + b), f = x W_in.

The feed-forward layer's first product commutes with the mixing, so it was done before, once for each source: a token of
the alphabet in the first block, a row of the first block in the second.
"""

from __future__ import annotations

from counting_interp.models.training.kernels.compiling import inlined
from counting_interp.models.training.kernels.lanes import LANES, add, add_times, fill, larger, load, store, sum_of
from counting_interp.models.training.kernels.products import clear


@inlined
def mix(f, weights, bias, n, rows, hidden):
    zero = fill(hidden.dtype.type(0))
    for b in range(n):
        keys, source = rows.keys[b], rows.source[b]
        for r in range(rows.start[b], rows.start[b + 1]):
            for at in range(0, hidden.shape[1], LANES):
                total = add(load(f[rows.own[r]], at), load(bias, at))
                for j in range(keys):
                    total = add_times(total, fill(weights[r, j]), load(f[source[j]], at))
                store(larger(zero, total), hidden[r], at)  # in this order NaN stays NaN


@inlined
def mix_back(d_mixed, f, sources, weights, n, rows, d_f, d_weights):
    """From the gradient of the sum above (bias and ReLU are done with) to those of f and of the weights."""
    clear(d_f, sources)
    width = d_mixed.shape[1]
    for b in range(n):
        begin, end = rows.start[b], rows.start[b + 1]
        for r in range(begin, end):
            own = d_f[rows.own[r]]
            for at in range(0, width, LANES):
                store(add(load(own, at), load(d_mixed[r], at)), own, at)
        for j in range(rows.keys[b]):
            source = rows.source[b, j]
            for r in range(begin, end):
                product = fill(f.dtype.type(0))
                for at in range(0, width, LANES):
                    product = add_times(product, load(d_mixed[r], at), load(f[source], at))
                d_weights[r, j] = sum_of(product)
            for at in range(0, width, LANES):
                total = load(d_f[source], at)
                for r in range(begin, end):
                    total = add_times(total, fill(weights[r, j]), load(d_mixed[r], at))
                store(total, d_f[source], at)
