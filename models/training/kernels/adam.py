"""Adam, as torch computes it, over all weights in one pass."""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled


@compiled
def adam(weights, gradient, moments, begin, step, course):
    """Update flat `weights` from index `begin` on, and the two moments, in place; `step` counts from 1."""
    size = course.lr / (1.0 - course.beta1**step)
    root = 1.0 / np.sqrt(1.0 - course.beta2**step)
    update(
        weights[begin:],
        gradient[begin:],
        moments[0][begin:],
        moments[1][begin:],
        weights.dtype.type(course.beta1),
        weights.dtype.type(1.0 - course.beta1),
        weights.dtype.type(course.beta2),
        weights.dtype.type(1.0 - course.beta2),
        weights.dtype.type(size),
        weights.dtype.type(root),
        weights.dtype.type(course.eps),
    )


@compiled
def update(weights, gradient, first, second, keep1, new1, keep2, new2, size, root, eps):
    for i in range(len(weights)):
        g = gradient[i]
        m = keep1 * first[i] + new1 * g
        v = keep2 * second[i] + new2 * g * g
        first[i] = m
        second[i] = v
        weights[i] -= size * m / (np.sqrt(v) * root + eps)
