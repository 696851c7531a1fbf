"""What float32 really loses is below the bound, and the bound is not absurd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from counting_interp.interp.proof.cells import extremes, views
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.interp.proof.rounding import UNIT_ROUNDOFF, Rounding, RunningError
from counting_interp.models import CountingTransformer, task
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import construct
from tests.helpers import EVERY_MODEL, small_model
from tests.interp.proof.examples import uniform_positions


def gaps(logits: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return logits.gather(-1, right.unsqueeze(-1)) - logits


def in_double(model: CountingTransformer) -> CountingTransformer:
    return CountingTransformer(model.config.replace(dtype="float64"), weights=model.state_dict())


def lost(model: CountingTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """How far the logit differences of the float32 model are from those in float64. [batch, pos, class]"""
    right = task.histogram(tokens) - model.config.first_count
    with torch.no_grad():
        return (gaps(model(tokens).double(), right) - gaps(in_double(model)(tokens), right)).abs()


def bounds(model: CountingTransformer) -> np.ndarray:
    """[view, count, class]"""
    reduction = Reduction(model)
    rounding = Rounding(reduction, "float32")
    return np.stack([rounding.margins(view, extremes(view, model.config.L)[1]) for view in views(reduction)])


MODELS = [small_model(variant, T=12, L=8, d=16, p=24, dtype="float32") for variant in VARIANTS]
BUILT = [
    construct(name, T=12, L=8) for name in ("rc-bos", "rc-bos+sftm", "rc-bos+sftm-circle", "ic-lin", "ic-dot+sftm")
]


@pytest.mark.parametrize("model", MODELS + BUILT, ids=lambda model: model.config.name)
def test_the_bound_holds_and_is_within_reason(model):
    config = model.config
    tokens = torch.cat(
        [task.sample(sampler, 400, T=config.T, L=config.L, generator=1) for sampler in ("paper", "uniform")]
    )
    actual, counts = lost(model, tokens).numpy(), task.histogram(tokens).numpy()
    views_of = tokens.numpy() + (0 if uniform_positions(model) else config.T * np.arange(config.L))
    allowed = bounds(model)[views_of, counts - 1]
    assert (actual <= allowed).all()
    assert allowed.max() < 2000 * max(actual.max(), 1e-6)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_the_running_bound_holds_through_any_depth(variant, n_layers):
    model = small_model(variant, n_layers, dtype="float32", d=12, p=16)
    tokens = task.sample("paper", 300, T=7, L=5, generator=2)
    logits, errors = RunningError(model, UNIT_ROUNDOFF["float32"])(tokens)
    with torch.no_grad():
        actual = (model(tokens).double() - logits).abs()
    assert bool((actual <= errors).all())
    assert float(errors.max()) < 2000**n_layers * float(actual.max())
