"""Training compiled as whole epochs: the gradients and the recipe of the published code, many times faster.

    from models.training import Recipe, train
    result = train(CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2, seed=0), Recipe(epochs=500))
    result.model.save("ckpt.pt")

`recipe.py` says what is done, `run.py` does it epoch by epoch and can stop and go on at any of them, `memory.py` lays
out the weights for the kernels, `kernels/` are the compiled epoch. docs/training.md has the mathematics and timings.
"""

from __future__ import annotations

from models.training.recipe import Recipe
from models.training.run import Run, TrainingResult, train

__all__ = ["Recipe", "Run", "TrainingResult", "train"]
