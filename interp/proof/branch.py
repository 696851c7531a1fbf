"""Branch and bound over everything the other positions can hold: a proof that one class always beats another.

Fix a position (token t, count k) and a challenger class c. With the reduction's sums, the function

    g(z) = z_D bias + sum_i w_i ReLU(z_i),   z = base + sum_m a_m V[x_m],
    bias = b_k - b_c - threshold,   w_i = W_out_ik - W_out_ic

must be positive for all choices of the x_m. A **node** is a set of such choices. It says of some positions which token
they hold. The others are free: n_s of them (the **pool**) hold s, it is not said which ones; the **rest** hold any of
the allowed tokens. At the root the pool is q times t (q = 0 where equal positions are part of the base), and the rest
may hold any token but t.

**Corners.** Let the weights a_m of the free positions have one sign and the sum A. The part of A that falls to a pool
token s lies between the sums of the n_s smallest and the n_s largest weights: mid_s +- half_s. What is left falls to
allowed tokens. So z is a convex combination of corners base + sum_j mid_j V[j] + (A - sum_j mid_j) V[s] with s allowed,
up to an error e_s = sum_j delta_j (V[j] - V[s]) with |delta_j| <= half_j. Where all weights are equal (`dot` and
`bos`), half = 0, and corners are sequences. Where the weights have both signs, their mean stands for each of them. The
deviations from it move z by an e with |h(e)| <= deviation (max_x h(V[x]) - min_x h(V[x])) for every linear h, over the
possible tokens x.

**Bounds.** At each corner the terms of g are replaced by linear ones that lie below them. With w_i > 0: w_i alpha_i z_i
for any alpha_i in [0, 1], the same at all corners (a convex function is above its tangents). With w_i < 0: the chord of
the term over the range of z_i around the corner (a concave function is above its chords, and above the interpolation
between corners). Then e enters linearly: it costs at most sum_j half_j |h(V[j] - V[s])|, h the slopes. A few steps of
subgradient ascent choose alpha, in units of 1 / ALPHA_UNITS, so that a certificate can write it down.

**Splits.** A node that is not proved is split on the token s of the worst corner. Either no position of the rest holds
s, or one does, and s joins the pool. Where different weights stand in the way, it is split on what the position with
the most unusual weight holds.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from counting_interp.util.compiled import strictly_compiled as compiled

ALPHA_UNITS = 128
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
        record: [node], filled in the order of visits with LEAF or with what the node is split on, as far as it is long.
        record_alpha: [node, d_mlp], the multipliers of the leaves in units of 1 / ALPHA_UNITS; -1 where nothing lies
            between the corners.
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


# --- bounds of one node -----------------------------------------------------------------------------------------------


@compiled
@no_type_check
def corner_bounds(corners, usable, table, pool, halves, deviation, possible, w, bias, separate, steps, bounds, alpha):
    """Fills `bounds` with lower bounds on g / z_D at the corners, which hold everywhere between them.

    Args:
        corners: [d_mlp_and_D, T]; usable: [T]; table: [d_mlp_and_D, T].
        pool: tokens j with their halves; possible: [T], the tokens x that e can be made of.
        separate: nothing lies between the corners; then alpha is chosen for each and not reported.
        alpha: filled with the multipliers.

    Returns:
        The index of the smallest bound, and that bound as it would be without e.
    """
    p, n = len(w), corners.shape[1]
    moves = deviation > 0.0 or (halves > 0.0).any()
    inverse, box = np.empty(n), np.zeros(n)
    rows, units, unstable = np.empty((p, n)), np.empty(p, np.int64), 0
    slopes = np.zeros((p if moves else 0, n))
    alpha[:] = 0.0
    for s in range(n):
        bounds[s] = bias if usable[s] else np.inf
        inverse[s] = 1.0 / corners[p, s]
    for i in range(p):
        weight = w[i]
        if weight == 0.0:
            continue
        row = rows[unstable]
        low, high = np.inf, -np.inf
        for s in range(n):
            row[s] = weight * corners[i, s] * inverse[s]
            if usable[s]:
                low, high = min(low, row[s]), max(high, row[s])
        if weight < 0.0 and moves:
            _fill_box(table[i], pool, halves, deviation, possible, box)
            for s in range(n):
                top, bottom = corners[i, s] + box[s], corners[i, s] - box[s]
                if bottom >= 0.0:
                    bounds[s] += row[s]
                    slopes[i, s] = weight
                elif top > 0.0:
                    bounds[s] += 0.5 * weight * top
                    slopes[i, s] = weight * top / (top - bottom)
        elif weight < 0.0:  # row = w z, so w ReLU(z) = min(row, 0)
            if low < 0.0:
                for s in range(n):
                    bounds[s] += min(row[s], 0.0)
        elif low >= 0.0 or separate:
            alpha[i] = 1.0
            for s in range(n):
                bounds[s] += max(row[s], 0.0)
                if moves and row[s] > 0.0:
                    slopes[i, s] = weight
        elif high > 0.0:
            alpha[i] = _rounded(high / (high - low))
            units[unstable] = i
            unstable += 1
    return _raise_lowest(
        bounds, rows, units[:unstable], alpha, steps, table, w, usable, pool, halves, deviation, possible, slopes
    )


@compiled
@no_type_check
def _rounded(alpha):
    return np.floor(min(1.0, max(0.0, alpha)) * ALPHA_UNITS + 0.5) / ALPHA_UNITS


@compiled
@no_type_check
def _fill_box(values, pool, halves, deviation, possible, box):
    """How far e can move one pre-activation, at each corner."""
    low, high = _span(values, possible)
    for s in range(len(box)):
        box[s] = deviation * (high - low)
        for j in range(len(pool)):
            box[s] += halves[j] * abs(values[pool[j]] - values[s])


@compiled
@no_type_check
def _span(values, possible):
    low, high = np.inf, -np.inf
    for x in range(len(values)):
        if possible[x]:
            low, high = min(low, values[x]), max(high, values[x])
    return low, high


@compiled
@no_type_check
def _raise_lowest(bounds, rows, units, alpha, steps, table, w, usable, pool, halves, deviation, possible, slopes):
    """Add alpha_i w_i z_i to the bounds and take off what e costs, with alpha from Polyak steps towards a positive
    minimum."""
    n, moves = len(bounds), len(slopes) > 0
    fixed, trial, plain, ascent = bounds.copy(), np.empty(n), np.empty(n), np.empty(len(units))
    linear = np.zeros(n)  # h(V[x]) as far as alpha decides it
    slope_at = np.zeros((n, n))  # [x, s]: h(V[x]) with the other slopes of corner s
    if moves:
        for i in range(len(slopes)):
            for x in range(n):
                if possible[x] or usable[x]:
                    for s in range(n):
                        slope_at[x, s] += slopes[i, s] * table[i, x]
    best, index, without = -np.inf, 0, 0.0
    kept = alpha.copy()
    for step in range(steps + 1):
        trial[:] = fixed
        for u in range(len(units)):
            for s in range(n):
                trial[s] += alpha[units[u]] * rows[u, s]
        plain[:] = trial
        if moves:
            linear[:] = 0.0
            for u in range(len(units)):
                for x in range(n):
                    linear[x] += alpha[units[u]] * w[units[u]] * table[units[u], x]
            for s in range(n):
                if usable[s]:
                    trial[s] -= _cost(s, slope_at, linear, pool, halves, deviation, possible)
        lowest = np.argmin(trial)
        if trial[lowest] > best:
            best, index, without = trial[lowest], lowest, plain[lowest]
            bounds[:] = trial
            kept[:] = alpha
        if best > 0.0 or len(units) == 0 or step == steps:
            break
        norm = 0.0
        for u in range(len(units)):
            i = units[u]
            ascent[u] = rows[u, lowest]
            if moves:
                ascent[u] -= w[i] * _cost_slope(table[i], lowest, slope_at, linear, pool, halves, deviation, possible)
            if (ascent[u] > 0.0 and alpha[i] < 1.0) or (ascent[u] < 0.0 and alpha[i] > 0.0):
                norm += ascent[u] * ascent[u]
        if norm == 0.0:
            break
        size = (0.1 * abs(best) - trial[lowest]) / norm
        for u in range(len(units)):
            alpha[units[u]] = _rounded(alpha[units[u]] + size * ascent[u])
    alpha[:] = kept
    return index, without


@compiled
@no_type_check
def _cost(s, slope_at, linear, pool, halves, deviation, possible):
    """What e can take off at corner s."""
    own = slope_at[s, s] + linear[s]
    cost = 0.0
    for j in range(len(pool)):
        cost += halves[j] * abs(slope_at[pool[j], s] + linear[pool[j]] - own)
    if deviation > 0.0:
        low, high = _span(slope_at[:, s] + linear, possible)
        cost += deviation * (high - low)
    return cost


@compiled
@no_type_check
def _cost_slope(values, s, slope_at, linear, pool, halves, deviation, possible):
    """The derivative of that cost by the slope of the unit whose contributions are `values`."""
    own = slope_at[s, s] + linear[s]
    change = 0.0
    for j in range(len(pool)):
        sign = np.sign(slope_at[pool[j], s] + linear[pool[j]] - own)
        change += halves[j] * sign * (values[pool[j]] - values[s])
    if deviation > 0.0:
        h = slope_at[:, s] + linear
        lowest, highest = -1, -1
        for x in range(len(h)):
            if possible[x]:
                lowest = x if lowest < 0 or h[x] < h[lowest] else lowest
                highest = x if highest < 0 or h[x] > h[highest] else highest
        change += deviation * (values[highest] - values[lowest])
    return change
