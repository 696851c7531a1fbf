"""Adam, as torch computes it, over all weights in one pass."""

from __future__ import annotations

import numpy as np

from counting_interp.models.training.kernels.compiling import inlined
from counting_interp.models.training.kernels.lanes import (
    LANES,
    add_times,
    divide,
    fill,
    load,
    multiply,
    root,
    store,
    subtract,
)


@inlined
def adam(weights, gradient, moments, begin, step, rate, course):
    """Update flat `weights` from index `begin` on, and the two moments, in place; `step` counts from 1.

    All are whole vectors: `begin` and the length are multiples of LANES.
    """
    real = weights.dtype.type
    first, second = moments
    keep1, new1 = fill(real(course.beta1)), fill(real(1.0 - course.beta1))
    keep2, new2 = fill(real(course.beta2)), fill(real(1.0 - course.beta2))
    size = fill(real(rate / (1.0 - course.beta1**step)))
    correction, eps = fill(real(1.0 / np.sqrt(1.0 - course.beta2**step))), fill(real(course.eps))
    for at in range(begin, len(weights), LANES):
        g = load(gradient, at)
        m = add_times(multiply(keep1, load(first, at)), new1, g)
        v = add_times(multiply(keep2, load(second, at)), multiply(new2, g), g)
        store(m, first, at)
        store(v, second, at)
        change = divide(multiply(size, m), add_times(eps, root(v), correction))
        store(subtract(load(weights, at), change), weights, at)
