"""Branch and bound over everything the other positions can hold: a proof that one class always beats another.

Fix a position (token t, count k) and a challenger class c. With the reduction's sums, the function

    g(x) = z_D (b_k - b_c - threshold) + sum_i w_i ReLU(z_i),  z = base + sum_m a_m V[x_m],  w_i = W_out_ik - W_out_ic

must be positive for all choices of the x_m. A **node** is a set of such choices. It says of some positions which token
they hold. The others are free: n_s of them (the **pool**) hold s, it is not said which ones; the **rest** hold any of
the allowed tokens. At the root the pool is q times t (q = 0 where equal positions are part of the base), and the rest
may hold any token but t.

Let the weights a_m of the free positions have one sign and the sum A. The part of A that falls to a pool token s lies
between the sums of the n_s smallest and the n_s largest weights: mid_s +- half_s. What is left falls to allowed tokens:
z is a convex combination of **corners** base + sum_s mid_s V[s] + (A - sum_s mid_s) V[s'], s' allowed, up to sum_s
delta_s (V[s] - V[s']), |delta_s| <= half_s. Where all weights are equal (`dot` and `bos`), half = 0, and corners are
sequences. Where the weights have both signs, their mean stands for each of them. The deviations from it move z by at
most half their sum times the range of V over the tokens that are possible. `corners` turns this into a bound.

What is not proved is split on the token s of the worst corner: no position of the rest holds s, or one does, and s
joins the pool. Where different weights stand in the way, it is split on what the position with the most unusual weight
holds.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from counting_interp.interp.proof.bounds import ALPHA_UNITS, corner_bounds
from counting_interp.util.compiled import strictly_compiled as compiled

PROVED, VIOLATED, OUT_OF_BUDGET = 0, 1, 2
FREE = -1
LEAF = -(2**62)  # in a record of the tree; otherwise a token s >= 0, or -1 - position


@compiled
@no_type_check
def exact_value(base, table, weights, held, w, bias):
    """g / z_D where the positions hold the tokens `held`."""
    p = len(w)
    z = base.copy()
    for m in range(len(held)):
        for i in range(p + 1):
            z[i] += weights[m] * table[i, held[m]]
    value = z[p] * bias
    for i in range(p):
        value += w[i] * max(z[i], 0.0)
    return value / z[p]


@compiled
@no_type_check
def _push(zs, masks, pools, helds, top, z, mask, pool, held):
    zs[top], masks[top], pools[top], helds[top] = z, mask, pool, held
    return top + 1


@compiled
@no_type_check
def _fill_corners(z, table, free, mask, pool, rest, corners, usable, halves):
    """The corners of a node, and what else may move: half_s of the pool's tokens, in order, and the deviation.

    free: the weights of the free positions, ascending.
    """
    T = table.shape[1]
    n = len(free)
    total = free.sum()
    usable[:] = mask
    if rest == 0:  # no corner of its own: the pool's largest token takes what the others leave
        usable[:] = False
        usable[np.argmax(pool)] = True
    mixed = n > 0 and free[0] < 0.0 < free[n - 1]
    mean, deviation, j = total / max(n, 1), 0.0, 0
    fixed, left = z.copy(), total
    for s in range(T):
        if pool[s] == 0:
            continue
        low, high = free[: pool[s]].sum(), free[n - pool[s] :].sum()
        halves[j] = 0.0
        if mixed:
            share = pool[s] * mean
        elif rest == 0 and usable[s]:
            share = 0.0  # it is the corner
        else:
            share, halves[j] = 0.5 * (low + high), 0.5 * (high - low)
        fixed += share * table[:, s]
        left -= share
        j += 1
    if mixed:
        deviation = 0.5 * np.abs(free - mean).sum()
        left = rest * mean
    for i in range(len(z)):
        for s in range(T):
            corners[i, s] = fixed[i] + left * table[i, s]
    return deviation


@compiled
@no_type_check
def _fill_in(held, pool, worst, heaviest_first, answer):
    """One sequence of a node: the pool's tokens on the first or on the last free positions, `worst` on the rest."""
    answer[:] = held
    free = np.flatnonzero(held == FREE)
    if heaviest_first:
        free = free[::-1]
    answer[free] = worst
    n = 0
    for s in range(len(pool)):
        for _ in range(pool[s]):
            answer[free[n]] = s
            n += 1


@compiled
@no_type_check
def branch_and_bound(
    base, table, weights, token, equal, allowed, w, bias, max_nodes, steps, answer, record, record_alpha
):
    """Depth first. Returns (verdict, nodes, bound): with PROVED, g / z_D >= bound > 0 everywhere; with VIOLATED,
    `answer` holds tokens of the other positions with g <= 0.

    Args:
        base: [d_mlp_and_D]; table: [d_mlp_and_D, T].
        weights: a_m of the other positions, ascending.
        equal: q, how many of them hold `token`.
        allowed: [T], the other tokens.
        record: [node], filled with LEAF or what the node is split on, in the order of visits, as far as it is long;
        record_alpha: [node, d_mlp], the multipliers of the leaves in units of 1 / ALPHA_UNITS; -1 where the corners
            are all there is.
    """
    width, T = table.shape
    r = len(weights)
    size = (T + 1) * (r + 2) + 2
    zs, masks = np.empty((size, width)), np.empty((size, T), np.bool_)
    pools, helds = np.empty((size, T), np.int64), np.empty((size, r), np.int64)
    z, mask, pool, held = base.copy(), allowed.copy(), np.zeros(T, np.int64), np.full(r, FREE)
    pool[token] = equal
    corners, bounds, halves = np.empty((width, T)), np.empty(T), np.empty(T)
    usable, alpha = np.empty(T, np.bool_), np.empty(width - 1)
    top = _push(zs, masks, pools, helds, 0, z, mask, pool, held)
    nodes, proved = 0, np.inf
    while top > 0:
        if nodes >= max_nodes:
            return OUT_OF_BUDGET, nodes, proved
        nodes += 1
        top -= 1
        z[:] = zs[top]
        mask[:] = masks[top]
        pool[:] = pools[top]
        held[:] = helds[top]
        positions = np.flatnonzero(held == FREE)
        free = weights[positions]
        rest = len(free) - pool.sum()
        deviation = _fill_corners(z, table, free, mask, pool, rest, corners, usable, halves)
        listed = np.flatnonzero(pool)
        half = halves[: len(listed)]
        separate = rest <= 1 or usable.sum() == 1
        possible = pool > 0
        if rest > 0:
            possible |= mask
        lowest, without = corner_bounds(
            corners, usable, table, listed, half, deviation, possible, w, bias, separate, steps, bounds, alpha
        )
        if bounds[lowest] > 0.0:
            proved = min(proved, bounds[lowest])
            if nodes <= len(record):
                record[nodes - 1] = LEAF
                for i in range(width - 1):
                    record_alpha[nodes - 1, i] = -1 if separate else int(alpha[i] * ALPHA_UNITS)
            continue
        moves = deviation > 0.0 or (half > 0.0).any()
        for heaviest_first in (False, True):
            _fill_in(held, pool, lowest, heaviest_first, answer)
            if (separate and not moves) or exact_value(base, table, weights, answer, w, bias) <= 0.0:
                return VIOLATED, nodes, proved
        if rest == 0 or (moves and without > 0.0):
            unusual = positions[np.argmax(np.abs(free - free.mean()))]
            if nodes <= len(record):
                record[nodes - 1] = -1 - unusual
            for s in range(T):
                if pool[s] > 0 or (rest > 0 and mask[s]):
                    owed = pool[s] > 0
                    pool[s] -= owed
                    held[unusual] = s
                    top = _push(zs, masks, pools, helds, top, z + weights[unusual] * table[:, s], mask, pool, held)
                    pool[s] += owed
            continue
        if nodes <= len(record):
            record[nodes - 1] = lowest
        mask[lowest] = False
        if mask.any():
            top = _push(zs, masks, pools, helds, top, z, mask, pool, held)
        mask[lowest] = True
        pool[lowest] += 1
        top = _push(zs, masks, pools, helds, top, z, mask, pool, held)
    return PROVED, nodes, proved
