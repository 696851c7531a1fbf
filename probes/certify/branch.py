"""Branch and bound over everything the other places can hold: a proof that one class always beats another.

Fix a place (token t, count k) and a challenger class c. With the reduction's sums, the function

    g(x) = z_D (b_k - b_c - threshold) + sum_i w_i ReLU(z_i),  z = base + sum_m a_m V[x_m],  w_i = W_out_ik - W_out_ic

must be positive for all choices of the x_m, q of which are t (q = 0 where equal places are part of the base) and the
rest other tokens. Let the a_m of the places still free have one sign and the sum A, and let theta be the part of A that
falls to t. Then z - base = theta V[t] + sum_s lambda_s V[s] with lambda_s >= 0, sum_s lambda_s = A - theta: z lies in
the convex hull of the **corners** base + theta V[t] + (A - theta) V[s], one per token s and per extreme of theta; for
`dot` and `bos`, these are the sequences that repeat one token. On the hull, terms with w_i < 0 are concave, so at least
the interpolation of their corner values; those with w_i > 0 are convex, so at least w_i alpha_i z_i for any alpha_i in
[0, 1] (1 or 0 where z_i keeps its sign). If the sum of these bounds is positive at every corner, the node is proved. It
is exact where no convex term changes its sign. A few steps of subgradient ascent choose alpha.

What is not proved is split on the token s of the worst corner: no free place holds s, or one of them does. Free places
whose a_m has the minority sign enter as intervals and are filled first.
"""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit

from probes.certify.corners import corner_bounds

PROVED, VIOLATED, OUT_OF_BUDGET = 0, 1, 2
FREE = -1


@njit(cache=True, error_model="numpy")
@no_type_check
def exact_value(base, table, weights, held, w, bias):
    """g / z_D where the places hold the tokens `held`."""
    p = len(w)
    z = base.copy()
    for m in range(len(held)):
        for i in range(p + 1):
            z[i] += weights[m] * table[i, held[m]]
    value = z[p] * bias
    for i in range(p):
        value += w[i] * max(z[i], 0.0)
    return value / z[p]


@njit(cache=True, error_model="numpy")
@no_type_check
def _sort_free(weights, held, major, minor):
    """Free places with the majority sign, in order of |a_m|, and the others. `weights` are sorted by |a_m|."""
    balance = 0.0
    for m in range(len(held)):
        if held[m] == FREE:
            balance += weights[m]
    n_major, n_minor = 0, 0
    for m in range(len(held)):
        if held[m] == FREE:
            if weights[m] * balance >= 0.0:
                major[n_major] = m
                n_major += 1
            else:
                minor[n_minor] = m
                n_minor += 1
    return n_major, n_minor


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill_corners(z, table, weights, token, major, n_major, fewest, most, corners):
    """Columns 0..T-1: t on the `fewest` lightest places, every other token on the rest. If t may hold any place at
    all, columns T..2T-1: t on the `most` heaviest. Returns the number of columns."""
    T = table.shape[1]
    total, low, high = 0.0, 0.0, 0.0
    for j in range(n_major):
        a = weights[major[j]]
        total += a
        if j < fewest:
            low += a
        if j >= n_major - most:
            high += a
    for i in range(len(z)):
        own = table[i, token]
        for s in range(T):
            corners[i, s] = z[i] + low * own + (total - low) * table[i, s]
    if most == 0:
        return T
    for i in range(len(z)):
        own = table[i, token]
        for s in range(T):
            corners[i, T + s] = z[i] + high * own + (total - high) * table[i, s]
    return 2 * T


@njit(cache=True, error_model="numpy")
@no_type_check
def _fill_boxes(table, weights, token, minor, n_minor, mask, q, low_box, high_box):
    """What the free places of minority sign can add to each pre-activation."""
    low_box[:] = 0.0
    high_box[:] = 0.0
    for j in range(n_minor):
        a = weights[minor[j]]
        for i in range(len(low_box)):
            low, high = np.inf, -np.inf
            for s in range(len(mask)):
                if mask[s] or (s == token and q > 0):
                    low, high = min(low, a * table[i, s]), max(high, a * table[i, s])
            low_box[i] += low
            high_box[i] += high


@njit(cache=True, error_model="numpy")
@no_type_check
def _push(zs, masks, helds, top, z, mask, held, table, weights, place, token):
    """A child in which `place` holds `token`, or a copy of the node if `place` is negative."""
    for i in range(len(z)):
        zs[top, i] = z[i]
    for s in range(len(mask)):
        masks[top, s] = mask[s]
    for m in range(len(held)):
        helds[top, m] = held[m]
    if place >= 0:
        for i in range(len(z)):
            zs[top, i] += weights[place] * table[i, token]
        helds[top, place] = token
    return top + 1


@njit(cache=True, error_model="numpy")
@no_type_check
def branch_and_bound(base, table, weights, token, equal, allowed, w, bias, max_nodes, steps, answer):
    """Depth first. Returns (verdict, nodes, bound): with PROVED, g / z_D >= bound > 0 everywhere; with VIOLATED,
    `answer` holds tokens of the other places with g <= 0.

    Args:
        base: [d_mlp_and_D]; table: [d_mlp_and_D, T].
        weights: a_m of the other places, sorted by |a_m|.
        equal: q, how many of them hold `token`.
        allowed: [T], the other tokens.
    """
    width, T = table.shape
    r = len(weights)
    size = (T + 1) * (r + 2) + 2
    zs, masks, helds = np.empty((size, width)), np.empty((size, T), np.bool_), np.empty((size, r), np.int64)
    z, mask, held = base.copy(), allowed.copy(), np.full(r, FREE)
    corners, rows, bounds = np.empty((width, 2 * T)), np.empty((width, 2 * T)), np.empty(2 * T)
    usable, alpha = np.empty(2 * T, np.bool_), np.empty(width)
    low_box, high_box = np.zeros(width - 1), np.zeros(width - 1)
    major, minor = np.empty(r, np.int64), np.empty(r, np.int64)
    top = _push(zs, masks, helds, 0, z, mask, held, table, weights, -1, 0)
    nodes, proved = 0, np.inf
    while top > 0:
        if nodes >= max_nodes:
            return OUT_OF_BUDGET, nodes, proved
        nodes += 1
        top -= 1
        z[:] = zs[top]
        mask[:] = masks[top]
        held[:] = helds[top]
        q = equal
        for m in range(r):
            q -= held[m] == token
        n_major, n_minor = _sort_free(weights, held, major, minor)
        n = _fill_corners(z, table, weights, token, major, n_major, max(0, q - n_minor), min(q, n_major), corners)
        if n_minor > 0:
            _fill_boxes(table, weights, token, minor, n_minor, mask, q, low_box, high_box)
        else:
            low_box[:] = 0.0
            high_box[:] = 0.0
        filled = n_minor == 0 and n_major == q  # all that is free holds t: one sequence, in every column
        for s in range(n):
            usable[s] = s == 0 if filled else mask[s % T]
        exact = filled or (n_minor == 0 and q == 0 and n_major <= 1)
        lowest = corner_bounds(
            corners[:, :n], usable, low_box, high_box, w, bias, exact, steps, bounds[:n], rows, alpha
        )
        if bounds[lowest] > 0.0:
            proved = min(proved, bounds[lowest])
            continue
        if n_minor > 0:
            place = minor[n_minor - 1]
            for s in range(T):  # enough free places must be left for t
                if (mask[s] and n_major + n_minor > q) or (s == token and q > 0):
                    top = _push(zs, masks, helds, top, z, mask, held, table, weights, place, s)
            continue
        worst = lowest % T
        answer[:] = held
        for j in range(n_major):
            of_token = j < q if lowest < T else j >= n_major - q
            answer[major[j]] = token if of_token else worst
        if exact or exact_value(base, table, weights, answer, w, bias) <= 0.0:
            return VIOLATED, nodes, proved
        mask[worst] = False
        if mask.any():
            top = _push(zs, masks, helds, top, z, mask, held, table, weights, -1, 0)
        mask[worst] = True
        for j in range(n_major):
            if j == 0 or weights[major[j]] != weights[major[j - 1]]:  # equal weights are interchangeable
                top = _push(zs, masks, helds, top, z, mask, held, table, weights, major[j], worst)
    return PROVED, nodes, proved
