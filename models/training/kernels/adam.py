"""Adam, as torch computes it, over all weights in one pass."""

from __future__ import annotations

import numpy as np

from models.training.kernels.compiling import compiled


@compiled
def adam(weights, gradient, moments, begin, step, course):
    """Update flat `weights` from index `begin` on, and the two moments, in place; `step` counts from 1."""
    first, second = moments
    real = weights.dtype.type
    keep1, keep2 = real(course.beta1), real(course.beta2)
    new1, new2 = real(1.0 - course.beta1), real(1.0 - course.beta2)
    size = real(course.lr / (1.0 - course.beta1**step))
    root = real(1.0 / np.sqrt(1.0 - course.beta2**step))
    tiny = real(course.eps)
    for i in range(begin, len(weights)):
        g = gradient[i]
        m = keep1 * first[i] + new1 * g
        v = keep2 * second[i] + new2 * g * g
        first[i] = m
        second[i] = v
        weights[i] -= size * m / (np.sqrt(v) * root + tiny)
