"""Compiled steps of training give the weights of autograd."""

from __future__ import annotations

import shutil

import pytest
import torch

from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe, Run, advance_together
from scripts.compiled_steps import _compiled_step, compiled_step
from tests.helpers import assert_close


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # inside torch's own compiler
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's compiler needs g++")
def test_compiled_steps_equal_autograd_to_rounding():
    """The last batch of an epoch is a smaller one, which is not compiled."""
    recipe = Recipe(epochs=3, sequences=70, batch_size=16, validation=50, schedule="linear")
    sizes = {"T": 7, "L": 5, "d": 6, "p": 4, "dtype": "float64"}
    configs = [CountingConfig.parse("dot+sftm+values+2heads+norm", **sizes, seed=seed) for seed in range(3)]
    by_autograd, compiled = ([Run(config, recipe) for config in configs] for _ in range(2))
    for _ in range(2):
        advance_together(by_autograd)
        advance_together(compiled, compiled_step(configs[1], recipe.batch_size, len(configs)))
    assert _compiled_step.cache_info().currsize == 1
    for expected, actual in zip(by_autograd, compiled, strict=True):
        assert_close(torch.tensor(actual.losses), torch.tensor(expected.losses), 1e-9)
        for weight, reference in zip(actual.model().parameters(), expected.model().parameters(), strict=True):
            assert_close(weight, reference, 1e-7)
