"""The arithmetic that a proof is about, and the ordinary range in which it is valid.

Every executed operation gives fl(x o y) = (x o y)(1 + delta) + eta with |delta| <= u and |eta| <= UNDERFLOW, in sums of
any order, fused or not. u is the unit roundoff of the precision. eta stands for whatever happens below the smallest
normal number: gradual underflow, results flushed to zero, or small results read as zero by the next operation. Each of
these loses less than 2^-125 in float32 and less than 2^-1021 in float64, so UNDERFLOW is generous.

The formula fails where numbers overflow and where stored weights are read as zero. So a model must lie in the ordinary
range: every weight is zero or between 1 / LIMIT and LIMIT in magnitude, which keeps weights out of reach of flushing;
and for every intermediate value the sum of the magnitudes of its terms stays below LIMIT, so no partial sum in any
order comes near the largest float. Zeros times finite numbers are exact. Models outside the range are not proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from counting_interp.interp.proof.reduction import Reduction
    from counting_interp.models.config import CountingConfig
    from counting_interp.models.transformer import CountingTransformer

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
UNDERFLOW = 2.0**-120
LIMIT = 2.0**100  # of weights and of sums of magnitudes; nonzero weights are not below its inverse
EXP_ULP = 8  # to which exp must be good; about 4 were seen of torch
# Roundings of a softmax besides those of its sum: exp above and below the fraction bar, an ulp being two u, and a
# division that may be a reciprocal and a product. The subtraction of the maximum is counted with the exponents.
EXP_AND_DIVIDE = 2 * 2 * EXP_ULP + 1  # a sum of n terms has n - 1 roundings
OUTSIDE = "it lies outside the ordinary range, where proofs about floating point are valid"


def precisions(config: CountingConfig, as_stored: bool) -> list[str]:
    """In which arithmetic a cell is proved, if it can be: that of the weights first."""
    return list(dict.fromkeys([config.dtype, config.dtype if as_stored else "float64"]))


def weights_outside(model: CountingTransformer) -> str | None:
    """Which weights are too large or too small for the ordinary range; None where all are inside."""
    for name, weight in model.state_dict().items():
        sizes = weight.detach().cpu().double().abs()
        sizes = sizes[sizes > 0]
        if bool((sizes < 1 / LIMIT).any()):
            return f"{OUTSIDE}: {name} has weights below 2^-100 that are not zero"
        if not bool((sizes <= LIMIT).all()):  # nor is NaN
            return f"{OUTSIDE}: {name} has weights above 2^100"
    return None


def values_outside(reduction: Reduction) -> str | None:
    """Which value of a one-layer model can leave the ordinary range on some sequence, by sums of magnitudes; None where
    none can. Dead units, units that no class reads, and products with zero are not left out."""
    r, config = reduction, reduction.config
    E = np.abs(r.E)
    sizes: dict[str, np.ndarray] = {}
    if config.mixing == "lin":
        pattern = np.abs(r.scores)
    else:
        sizes["queries"], sizes["keys"] = E @ np.abs(r.W_Q), E @ np.abs(r.W_K)
        sizes["scores"] = pattern = sizes["queries"] @ sizes["keys"].T
    weight = 1.0 if config.softmax else pattern.max()
    sizes["mixed tokens"] = E.max(0) * (1 + config.n_positions * weight)
    sizes["hidden units"] = sizes["mixed tokens"] @ np.abs(r.W_in) + np.abs(r.b_in)
    sizes["logits"] = sizes["hidden units"] @ np.abs(r.W_out) + np.abs(r.b_out)
    for name, size in sizes.items():
        if not bool((size < LIMIT).all()):  # nor is NaN
            return f"{OUTSIDE}: terms of its {name} can add up to more than 2^100"
    return None
