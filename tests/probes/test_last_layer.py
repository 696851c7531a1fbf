"""The formula of a counting transformer's last layer, and the model run again with other pre-activations, agree."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models.config import VARIANTS
from counting_interp.probes.designs import every_count
from counting_interp.probes.readout import ByFormula, ByHooks, _pre_activations
from tests.helpers import BLOCKS, assert_close, small_block


@pytest.mark.parametrize("name", [*VARIANTS, *BLOCKS])
def test_two_ways_agree(name):
    model = small_block(name, n_layers=2)
    tokens, where = every_count(model.config, 2, seed=0)
    tokens, at = tokens.flatten(0, 2), where.flatten()
    pre = _pre_activations(model, tokens, at)
    formula, hooks = ByFormula(model), ByHooks(model, tokens, at)
    assert_close(hooks.metric(pre), formula.metric(pre))
    moved = pre + torch.randn(3, *pre.shape, generator=torch.Generator().manual_seed(0), dtype=pre.dtype)
    of = torch.arange(len(at)).expand(3, -1)
    assert torch.equal(hooks.predict(moved, of), formula.predict(moved, of))
