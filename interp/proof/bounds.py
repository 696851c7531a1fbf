"""Lower bounds on a piecewise linear function over a set of sequences, from its corners alone (see `branch`).

A node of `branch` is the set of all z = sum_s nu_s (corner_s + e_s), nu >= 0, sum_s nu_s = 1, where e_s is what may
still move because positions have different weights: sum_j delta_j (V[j] - V[s]) with |delta_j| <= half_j, or, where the
weights have both signs, any e whose every linear function h has |h(e)| <= deviation (max_x h(V[x]) - min_x h(V[x])). At
each corner the terms of

    g(z) = z_D bias + sum_i w_i ReLU(z_i)

are replaced by linear ones that lie below them. With w_i > 0, w_i alpha_i z_i for any alpha_i in [0, 1], the same at
all corners (a convex function is above its tangents). With w_i < 0 the chord of the term over the range of z_i around
the corner (a concave function is above its chords, and above the interpolation between corners). Then e enters
linearly: it costs at most sum_j half_j |h(V[j] - V[s])|, h the slopes. A few steps of subgradient ascent choose alpha,
in units of 1 / ALPHA_UNITS, so that a certificate can write it down.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np

from counting_interp.util.compiled import strictly_compiled as compiled

ALPHA_UNITS = 128


@compiled
@no_type_check
def corner_bounds(corners, usable, table, pool, halves, deviation, possible, w, bias, separate, steps, bounds, alpha):
    """Fills `bounds` with lower bounds on g / z_D at the corners that hold everywhere between them, and `alpha` with
    the multipliers. Returns the index of the smallest bound, and that bound as it would be without e.

    corners: [d_mlp_and_D, T]; usable: [T]; table: [d_mlp_and_D, T];
    pool: tokens j with their halves; possible: [T], the tokens x that e can be made of;
    separate: the corners are all there is, nothing lies between them; alpha is chosen for each and not reported.
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
