"""RC in `bos+sftm` in few dimensions: temperatures against the paper's root equation, and the share of `$`."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import task
from counting_interp.models.constructions import construct
from tests.models.constructions.temperatures import arc_gap, binary_gap, smallest_temperature


@pytest.mark.parametrize(
    ("name", "d", "gap"),
    [
        ("rc-bos+sftm-binary", 8, binary_gap(6)),
        ("rc-bos+sftm-arc", 4, arc_gap(32)),
        ("rc-bos+sftm-sign", 6, 2 / 5),
        ("rc-bos+sftm-circle", 3, 0.01921471959676957),
    ],
)
def test_sizes_and_temperatures(name, d, gap):
    model = construct(name)
    kappa = model.metadata["mechanism"]["inverse_temperature"]
    assert (model.config.d, model.config.p) == (d, 1)
    assert smallest_temperature(gap, 10) < kappa < 2.2 * smallest_temperature(gap, 10)


@pytest.mark.parametrize("name", ["rc-bos+sftm-binary", "rc-bos+sftm-arc", "rc-bos+sftm-sign", "rc-bos+sftm-circle"])
def test_the_share_of_bos_falls_with_the_count(name):
    model = construct(name)
    tokens = task.sample("paper", 300, T=32, L=10, generator=0)
    _, cache = model.run_with_cache(tokens)
    share, counts = cache["pattern", 0][:, 0, 1:, 0], task.histogram(tokens)
    lowest = torch.stack([share[counts == k].min() for k in range(1, 11)])
    highest = torch.stack([share[counts == k].max() for k in range(1, 11)])
    assert bool((highest[1:] < lowest[:-1]).all())


def test_too_many_tokens_for_float32_is_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"rounding in float32 is too coarse .*try dtype='float64'"):
        construct("rc-bos+sftm-arc", 400, 5, dtype="float32")
