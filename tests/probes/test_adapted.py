"""Probes on a model that is known by its answers and hook points only say the same as on the model itself."""

from __future__ import annotations

import pytest

from counting_interp.models.constructions import construct
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.catalogue import CATALOGUE, find
from tests.helpers import adapted, assert_close, small_block
from tests.models.constructions.carried import carried

READS_WEIGHTS = {"spectrum", "bos-sweep", "simplex", "step-function", "published"}
NAMES = [probe.name for probe in CATALOGUE if probe.name not in READS_WEIGHTS]


def models():
    yield "rc-bos+sftm", construct("rc-bos+sftm", T=8, L=4, dtype="float64")
    yield "ic-dot+sftm, two heads", carried(construct("ic-dot+sftm", T=8, L=4, dtype="float64"), n_heads=2)
    for name in ("dot+sftm+values+norm+causal", "bos+values+2heads+gelu"):
        yield name, small_block(name)


MODELS = dict(models())


@pytest.mark.parametrize("which", MODELS)
@pytest.mark.parametrize("name", NAMES)
def test_the_same_numbers(which, name):
    model = MODELS[which]
    probe, own = find(name), adapted(model)
    if not probe.applies_to(model.config):
        with pytest.raises(NotApplicable):
            probe.run(own)
        return
    got, expected = probe.run(own).to_dict()["summary"], probe.run(model).to_dict()["summary"]
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, float):
            assert_close(got[key], value, 1e-7)
        else:
            assert got[key] == value, key


@pytest.mark.parametrize("name", sorted(READS_WEIGHTS))
def test_what_reads_weights_says_so(name):
    with pytest.raises(NotApplicable, match=r"only hook points are known|a block of its own"):
        find(name).run(adapted(MODELS["rc-bos+sftm"]))
