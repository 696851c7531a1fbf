"""exp(x) for x <= 0, all that a softmax needs, in a form that the compiler can vectorise."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
from numba import types
from numba.extending import overload

LOG2_E = np.float32(1.44269504)
LN2_HIGH = np.float32(0.693359375)  # few bits: its product with an exponent is exact
LN2_LOW = np.float32(-2.12194440e-4)
LOWEST = np.float32(-87.0)  # exp of it is the smallest normal number, near enough
C6, C5, C4 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C2, C1 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
HALF, ONE = np.float32(0.5), np.float32(1.0)
BIAS, MANTISSA_BITS = np.int32(127), np.int32(23)


def exp_down(x):
    """exp(min(x, 0)), to 2e-7 in single precision (below -87: 1.6e-38, not less), exact in double precision."""
    return np.exp(np.minimum(x, 0))


@overload(exp_down)
@no_type_check  # numba wants the bare function, also while the tests check types
def _exp_down(x):
    if x != types.float32:
        return lambda x: np.exp(min(x, 0.0))

    def single(x):
        """Cephes: exp(x) = 2^n exp(r) with |r| <= ln(2) / 2, a polynomial for exp(r), and 2^n by its bits."""
        z = min(max(x, LOWEST), np.float32(0.0))
        n = np.int32(z * LOG2_E - HALF)  # towards zero, so to the nearest integer of a negative number
        real = np.float32(n)
        r = z - real * LN2_HIGH - real * LN2_LOW
        tail = ((((C6 * r + C5) * r + C4) * r + C3) * r + C2) * r + C1
        power = np.int32((n + BIAS) << MANTISSA_BITS).view(np.float32)
        return (tail * r * r + r + ONE) * power

    return single
