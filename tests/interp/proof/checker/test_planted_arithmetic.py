"""The checker refuses every model that floating point betrays, also under a certificate true of real numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from counting_interp.interp.proof import document as witness
from counting_interp.interp.proof.cells import CountCell, views
from counting_interp.interp.proof.checker.check import check, seal
from counting_interp.interp.proof.checker.weights import Refused
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.models import CountingTransformer
from counting_interp.models.checkpoint.safetensors import digest
from counting_interp.util.errors import InterpError
from tests.interp.proof.planted_arithmetic import PLANTED


def forged(model: CountingTransformer) -> dict[str, Any]:
    """A certificate in the dtype of the weights that proves the real function and says nothing true of rounding."""
    reduction, config = Reduction(model), model.config
    cells = []
    with np.errstate(all="ignore"):
        for view in views(reduction):
            for count in range(1, config.L + 1):
                try:
                    trees, margin = witness._trees(CountCell(reduction, view, count), 0.0)
                    stated = int(margin / 2 / witness.MARGIN_UNIT)
                except (InterpError, OverflowError, ValueError):  # beyond float64: the checker must not come so far
                    trees, stated = [[""]] * (config.classes - 1), 1
                cells.append([max(stated, 1), trees])
    document: dict[str, Any] = {
        "format": witness.FORMAT,
        "version": witness.VERSION,
        "weights_sha256": digest(model.state_dict()),
        "model": {name: getattr(config, name) for name in ("mixing", "softmax", "T", "L", "d", "p", "n_classes")},
        "counts": config.L,
        "precision": config.dtype,
        "cells": cells,
    }
    return {**document, "sha256": seal(document)}


@pytest.mark.parametrize("planted", [p for p in PLANTED if not p.name.startswith("two layers")], ids=str)
def test_the_checker_refuses_it_for_its_arithmetic(planted, tmp_path):
    model = planted.build()
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(json.dumps(forged(model)))
    with pytest.raises(Refused, match=r"ordinary range|within the rounding"):
        check(tmp_path / "certificate.json", tmp_path / "model.safetensors")
