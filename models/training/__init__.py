"""Training: the published recipe for the paper's variants, compiled as whole epochs, and for any block by autograd.

    from counting_interp.models.training import Recipe, train
    run = train(CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2, seed=0), Recipe(epochs=500))
    run.model().save("ckpt.pt")

A `Recipe` (`engine`) fixes a run. `run` follows it epoch by epoch, and can stop and resume at any of them; `record`
keeps it on disk. Two engines do the steps: `kernel_engine` with the compiled `kernels`, or `torch_engine`.
docs/training.md has the mathematics and timings.
"""

from __future__ import annotations

from counting_interp.models.training.engine import Recipe
from counting_interp.models.training.run import Run, advance_together, train

__all__ = ["Recipe", "Run", "advance_together", "train"]
