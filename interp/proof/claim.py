"""What is claimed of a model: which counts, in which arithmetic. One sentence, printed wherever a proof is reported.

"Proved", without more, means all of this in the dtype of the file.

Every executed operation gives fl(x o y) = (x o y)(1 + delta) + eta with |delta| <= u and |eta| <= UNDERFLOW, in sums of
any order, fused or not. u is the unit roundoff of the precision. eta stands for whatever happens below the smallest
normal number: gradual underflow, results flushed to zero, or small results read as zero by the next operation. Each of
these loses less than 2^-125 in float32 and less than 2^-1021 in float64, so UNDERFLOW is generous.

The formula fails where numbers overflow and where stored weights are read as zero. So a model must lie in the ordinary
range. Every weight is zero or between 1 / LIMIT and LIMIT in magnitude, out of reach of flushing. For every
intermediate value the magnitudes of its terms add up to less than LIMIT, so no partial sum in any order comes near the
largest float. Zeros times finite numbers are exact. Models outside the range are not proved.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Claim:
    """What a proof of a model says.

    Attributes:
        counts: the largest true count that is spoken of.
        shown: whether training may have shown the model every count from 1 to L.
        dtype: of the weights.
    """

    T: int
    L: int
    counts: int
    shown: bool
    dtype: str

    def sentence(self, precision: str) -> str:
        """What is proved when a proof holds in `precision`."""
        positions = "position" if self.counts == self.L else f"position with a true count up to {self.counts}"
        same = precision == self.dtype
        stored = "" if same else f" The weights are {self.dtype}; run in {self.dtype} it is not proved."
        return (
            f"At every {positions} of all {self.T}^{self.L} sequences the true count has the strictly highest logit. "
            f"This holds in real numbers and in {precision}.{stored} Sums may be taken in any order, small "
            "numbers kept or flushed to zero, exp good to 8 ulp; TF32, bfloat16 and fast-math are excluded. "
            "All weights and sums lie in the ordinary range, up to 2^100 in size."
        )


def claim(model: CountingTransformer, max_count: int | None = None) -> Claim:
    """What is asked about a model unless somebody asks for more or less.

    The published sampler never shows a token L times, so models trained by it are asked about counts up to L - 1. A
    repair shows every count.

    Args:
        max_count: ask about counts up to this instead.

    Raises:
        ValueError: if `max_count` is not between 1 and L.
    """
    config, task = model.config, model.metadata.get("task")
    published = isinstance(task, dict) and task.get("sampler") == "published"
    shown = not published or "repair" in model.metadata
    if max_count is not None and not 1 <= max_count <= config.L:
        raise ValueError(f"max_count must be between 1 and L={config.L}, got {max_count}")
    return Claim(config.T, config.L, max_count or config.L - (not shown), shown, config.dtype)


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
