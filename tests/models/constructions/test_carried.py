"""Constructions in blocks with values, heads and norms: the logits of the original, and so its mechanism."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import task
from counting_interp.models.constructions import CATALOGUE, construct
from tests.helpers import assert_close, small_block
from tests.models.constructions.carried import carried
from tests.models.constructions.cases import all_multisets


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_function_is_that_of_the_original(name):
    model = construct(name, 8, 5, dtype="float64")
    tokens = task.sample("uniform", 60, T=8, L=5, generator=0)
    logits = model(tokens).detach()
    scale = max(1.0, float(logits.abs().max()))
    for n_heads in (1, 3):
        other = carried(model, n_heads=n_heads)
        assert other.config.n_heads == n_heads
        assert_close(other(tokens) / scale, logits / scale, 1e-9)
    normed = carried(model, n_heads=2, layer_norm=True)
    assert_close(normed(tokens) / scale, logits / scale, 1e-6)
    assert normed.accuracy(all_multisets(8, 5)) == 1
    assert normed.metadata["mechanism"] == model.metadata["mechanism"]


def test_surplus_heads_attend_and_write_nothing():
    model = carried(construct("rc-bos+sftm", 8, 5), n_heads=3)
    _, cache = model.run_with_cache(task.sample("paper", 5, T=8, L=5, generator=0))
    assert not torch.allclose(cache["pattern", 0][:, 1], cache["pattern", 0][:, 0])
    written = cache.stack_head_results()
    assert bool(written[0].any())
    assert not bool(written[1:].any())


def test_only_the_paper_s_blocks_can_be_carried_over():
    with pytest.raises(ValueError, match=r"one-layer models of the paper can be carried over, got dot\+gelu"):
        carried(small_block("dot+gelu"))
