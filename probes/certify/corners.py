"""Lower bounds on a piecewise linear function over a convex hull, from its corners alone (see `branch`)."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import njit


@njit(cache=True, error_model="numpy")
@no_type_check
def corner_bounds(corners, allowed, low_box, high_box, w, bias, exact, steps, bounds, rows, alpha):
    """Fills `bounds` with lower bounds on g / z_D at the corners that hold everywhere between them; returns the index
    of the smallest.

    corners: [d_mlp_and_D, corner]; low_box, high_box [d_mlp]: what other places may add to each z_i;
    exact: the corners are all there is. rows [d_mlp, corner] and alpha [d_mlp] are work space.
    """
    p, n = len(w), corners.shape[1]
    inverse = np.empty(n)
    for s in range(n):
        bounds[s] = bias if allowed[s] else np.inf
        inverse[s] = 1.0 / corners[p, s]
    unstable = 0
    for i in range(p):
        weight = w[i]
        if weight == 0.0:
            continue
        shift = low_box[i] if weight > 0.0 else high_box[i]
        row = rows[unstable]
        low, high = np.inf, -np.inf
        for s in range(n):
            row[s] = weight * (corners[i, s] + shift) * inverse[s]
            if allowed[s]:
                low, high = min(low, row[s]), max(high, row[s])
        if weight < 0.0:  # row = w z, so w ReLU(z) = min(row, 0)
            if low < 0.0:
                for s in range(n):
                    bounds[s] += min(row[s], 0.0)
        elif low >= 0.0 or exact:
            for s in range(n):
                bounds[s] += max(row[s], 0.0)
        elif high > 0.0:
            alpha[unstable] = high / (high - low)
            unstable += 1
    return _raise_lowest(bounds, rows, alpha, unstable, steps)


@njit(cache=True, error_model="numpy")
@no_type_check
def _raise_lowest(bounds, rows, alpha, unstable, steps):
    """Add alpha_i w_i z_i to the bounds, with alpha from Polyak steps towards a positive minimum."""
    fixed, trial = bounds.copy(), np.empty(len(bounds))
    best, index = -np.inf, 0
    for step in range(steps + 1):
        trial[:] = fixed
        for u in range(unstable):
            for s in range(len(trial)):
                trial[s] += alpha[u] * rows[u, s]
        lowest = np.argmin(trial)
        if trial[lowest] > best:
            best, index = trial[lowest], lowest
            bounds[:] = trial
        if best > 0.0 or unstable == 0 or step == steps:
            break
        norm = 0.0
        for u in range(unstable):
            slope = rows[u, lowest]
            if (slope > 0.0 and alpha[u] < 1.0) or (slope < 0.0 and alpha[u] > 0.0):
                norm += slope * slope
        if norm == 0.0:
            break
        size = (0.1 * abs(best) - trial[lowest]) / norm
        for u in range(unstable):
            alpha[u] = min(1.0, max(0.0, alpha[u] + size * rows[u, lowest]))
    return index
