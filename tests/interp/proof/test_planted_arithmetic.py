"""What only real numbers count rightly is never certified: one model for each way to betray a proof."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from counting_interp.interp.proof import Certificate, prove
from tests.interp.proof.planted_arithmetic import PLANTED, denormals_flushed, right_in_wide_range, share_right

WIDE = np.finfo(np.longdouble).maxexp > 2000


def can_flush() -> bool:
    with denormals_flushed(True):
        return float(torch.tensor(2.0**-130) * 1.0) == 0.0


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_it_is_right_in_real_numbers_wrong_when_run_and_not_certified(planted):
    model = planted.build()
    if WIDE:
        assert right_in_wide_range(model)
    if can_flush() or not planted.flushed:
        assert share_right(model, planted.flushed) < 1
    assert not isinstance(prove(model, seconds=20), Certificate)
