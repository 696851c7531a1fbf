"""Training: the published recipe for the paper's variants, compiled as whole epochs, and for any block by autograd.

    from counting_interp.models.training import Recipe, train
    result = train(CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2, seed=0), Recipe(epochs=500))
    result.model.save("ckpt.pt")

`recipe` says what is done. `run` does it epoch by epoch, and can stop and resume at any of them; `record` keeps it on
disk. Two engines (`engine`) do the steps: `kernel_engine` with `kernels`, the compiled epoch, or `torch_engine`.
docs/training.md has the mathematics and timings.
"""

from __future__ import annotations

from counting_interp.models.training.recipe import Recipe
from counting_interp.models.training.run import Run, TrainingResult, advance_together, train

__all__ = ["Recipe", "Run", "TrainingResult", "advance_together", "train"]
