"""What is claimed of a model: which counts, in which arithmetic. One sentence, printed wherever a proof is reported.

"Proved", without more, means all of this in the dtype of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from counting_interp.models.transformer import CountingTransformer


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
