"""What float32 really loses is below the checker's bounds, and these are not above the prover's by much."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from counting_interp.interp.proof.checker.cell_rounding import ViewBounds
from counting_interp.interp.proof.checker.model import Model
from counting_interp.interp.proof.checker.rounding import Q, Rounding
from counting_interp.interp.proof.checker.weights import read
from counting_interp.models import task
from tests.interp.proof.examples import uniform_positions
from tests.interp.proof.test_rounding import BUILT, MODELS, bounds, lost


@pytest.mark.parametrize("model", MODELS + BUILT, ids=lambda model: model.config.name)
def test_the_bounds_hold_and_are_within_reason(model, tmp_path):
    config = model.config
    model.save(tmp_path / "model.safetensors")
    exact = Model(read(tmp_path / "model.safetensors")[0], config.to_dict())
    rounding = Rounding(exact, "float32")
    allowed, coarse = [], []
    for view in exact.views():
        of_view = ViewBounds(rounding, view)
        allowed.append([of_view.at(count) / 2**Q for count in range(1, config.L + 1)])
        coarse.append(of_view.at_all_counts())
    assert all(quick is not None and quick / 2**Q >= max(row) for quick, row in zip(coarse, allowed, strict=True))
    tokens = torch.cat(
        [task.sample(sampler, 300, T=config.T, L=config.L, generator=1) for sampler in ("paper", "uniform")]
    )
    actual, counts = lost(model, tokens).numpy().max(-1), task.histogram(tokens).numpy()
    views_of = tokens.numpy() + (0 if uniform_positions(model) else config.T * np.arange(config.L))
    assert (actual <= np.array(allowed)[views_of, counts - 1]).all()
    assert (np.array(allowed) <= 1.05 * bounds(model).max(-1)).all()
