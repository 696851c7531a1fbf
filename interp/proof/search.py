"""Local search for the sequence on which a model comes closest to a wrong answer, or gives one."""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from counting_interp.util.compiled import strictly_compiled as compiled


@compiled
@no_type_check
def margin_at(z, W_out, b_out, right, logits):
    """Logit of the right class minus the highest other one, for pre-activations z with z_D in the last place."""
    p, C = W_out.shape
    D = z[p]
    for c in range(C):
        logits[c] = D * b_out[c]
    for i in range(p):
        if z[i] > 0.0:
            for c in range(C):
                logits[c] += z[i] * W_out[i, c]
    best = np.inf
    for c in range(C):
        if c != right:
            best = min(best, logits[right] - logits[c])
    return best / D


@compiled
@no_type_check
def _sum_without(base, table, weights, others, left_out, second, z):
    """base + sum_m a_m V[x_m], without the positions `left_out` and `second`. Nothing is ever subtracted again: with
    softmax the terms differ by many orders of magnitude."""
    z[:] = base
    for m in range(len(others)):
        if m != left_out and m != second:
            for i in range(len(z)):
                z[i] += weights[m] * table[others[m], i]


@compiled
@no_type_check
def descend(base, table, weights, token, others, W_out, b_out, right, sweeps):
    """Coordinate descent on the margin over the tokens of the other positions, in place. Positions that hold `token`
    keep their number: they trade places with others (this matters only where the weights differ)."""
    r, T, width = len(others), table.shape[0], table.shape[1]
    rest, z, logits = np.empty(width), np.empty(width), np.empty(len(b_out))
    _sum_without(base, table, weights, others, -1, -1, z)
    best = margin_at(z, W_out, b_out, right, logits)
    for _ in range(sweeps):
        before = best
        for m in range(r):
            if others[m] == token:
                for other in range(r):
                    if others[other] == token or weights[other] == weights[m]:
                        continue
                    _sum_without(base, table, weights, others, m, other, z)
                    for i in range(width):
                        z[i] += weights[other] * table[token, i] + weights[m] * table[others[other], i]
                    margin = margin_at(z, W_out, b_out, right, logits)
                    if margin < best:
                        best = margin
                        others[m], others[other] = others[other], token
                        break
                continue
            _sum_without(base, table, weights, others, m, -1, rest)
            for s in range(T):
                if s == token:
                    continue
                for i in range(width):
                    z[i] = rest[i] + weights[m] * table[s, i]
                margin = margin_at(z, W_out, b_out, right, logits)
                if margin < best:
                    best = margin
                    others[m] = s
        if not best < before:
            break


@compiled
@no_type_check
def search_cell(base, table, weights, token, starts, W_out, b_out, right, sweeps):
    """Several descents, in place."""
    for n in range(len(starts)):
        descend(base, table, weights, token, starts[n], W_out, b_out, right, sweeps)
