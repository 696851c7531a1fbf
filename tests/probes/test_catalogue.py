"""The catalogue: every entry runs or says why not, lists without torch, and refuses what it does not know."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from probes.catalogue import BY_NAME, CATALOGUE, applicable, find
from probes.errors import NotApplicable
from tests.helpers import EVERY_MODEL, ROOT, small_model

EVERY_PROBE = [pytest.param(probe, id=probe.name) for probe in CATALOGUE]


@pytest.mark.parametrize("probe", EVERY_PROBE)
@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_runs_on_every_model_or_says_why_not(probe, variant, n_layers):
    model = small_model(variant, n_layers)
    if not probe.applies_to(model.config):
        with pytest.raises(NotApplicable, match=r".{20,}"):
            probe.run(model)
        return
    result = probe.run(model)
    assert result.probe == probe.name
    json.dumps(result.to_dict(), allow_nan=False)
    rows = list(csv.reader(io.StringIO(result.to_csv())))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}
    assert result.summary
    assert probe.name in result._repr_html_()


@pytest.mark.parametrize("probe", EVERY_PROBE)
def test_the_function_itself_refuses_where_the_catalogue_does(probe):
    from importlib import import_module

    module, function = probe.home.split(":")
    for variant, n_layers in EVERY_MODEL:
        model = small_model(variant, n_layers)
        if not probe.applies_to(model.config):
            with pytest.raises(NotApplicable):
                getattr(import_module(module), function)(model)


@pytest.mark.parametrize("probe", EVERY_PROBE)
def test_does_not_touch_the_model_or_the_global_generator(probe):
    import torch

    for variant, n_layers in EVERY_MODEL:
        model = small_model(variant, n_layers)
        if not probe.applies_to(model.config):
            continue
        before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
        first, second = probe.run(model), probe.run(model)
        assert first.to_dict() == second.to_dict()
        assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
        assert torch.equal(state, torch.get_rng_state())
        assert not any(point.fwd_hooks for point in model.hook_dict.values())


def test_names_are_unique_and_described_in_a_line():
    assert len(BY_NAME) == len(CATALOGUE)
    for probe in CATALOGUE:
        assert 20 <= len(probe.description) <= 100
        assert "\n" not in probe.description


def test_unknown_names_and_options_are_answered():
    with pytest.raises(ValueError, match="no probe 'atention'; did you mean attention"):
        find("atention")
    with pytest.raises(ValueError, match="the probe attention has no option 'alpha'; it takes sequence, layer, seed"):
        find("attention").run(small_model("dot"), alpha=3)


def test_applicable_lists_what_applies():
    config = small_model("lin").config
    assert set(applicable(config)) == {probe for probe in CATALOGUE if probe.why_not(config) is None}


def test_listing_imports_no_torch():
    code = "import probes.catalogue, sys; assert 'torch' not in sys.modules and 'transformer_lens' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
