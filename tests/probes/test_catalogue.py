"""The catalogue: every entry runs or says why not, lists without torch, and refuses what it does not know."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from importlib import import_module

import pytest
import torch

from counting_interp.models import CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import construct
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.catalogue import BY_NAME, CATALOGUE, applicable, find
from tests.helpers import EVERY_MODEL, ROOT, small_model

BY_WEIGHTS = {"step-function"}  # says no to most weights of the architectures it fits
EVERY_PROBE = [pytest.param(probe, id=probe.name) for probe in CATALOGUE]


@pytest.mark.parametrize("probe", EVERY_PROBE)
@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_runs_on_every_model_or_says_why_not(probe, variant, n_layers):
    model = small_model(variant, n_layers)
    if not probe.applies_to(model.config):
        with pytest.raises(NotApplicable, match=r".{20,}"):
            probe.run(model)
        return
    try:
        result = probe.run(model)
    except NotApplicable:
        assert probe.name in BY_WEIGHTS
        return
    assert result.probe == probe.name
    json.dumps(result.to_dict(), allow_nan=False)
    rows = list(csv.reader(io.StringIO(result.to_csv())))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}
    assert result.summary
    assert probe.name in result._repr_html_()
    assert probe.name == "published" or all(meaning for *_, meaning in result.table())


@pytest.mark.parametrize("probe", EVERY_PROBE)
def test_the_function_itself_refuses_where_the_catalogue_does(probe):
    module, function = probe.home.split(":")
    for variant, n_layers in EVERY_MODEL:
        model = small_model(variant, n_layers)
        if not probe.applies_to(model.config):
            with pytest.raises(NotApplicable):
                getattr(import_module(module), function)(model)


@pytest.mark.parametrize("probe", EVERY_PROBE)
def test_does_not_touch_the_model_or_the_global_generator(probe):
    model = first_that_fits(probe)
    before, state = {name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state()
    assert probe.run(model).to_dict() == probe.run(model).to_dict()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(point.fwd_hooks for point in model.hook_dict.values())


def first_that_fits(probe) -> CountingTransformer:
    if probe.name in BY_WEIGHTS:
        return construct("rc-dot", T=7, L=5)
    for T, L in ((7, 5), (32, 10)):
        for variant in reversed(VARIANTS):
            model = small_model(variant, T=T, L=L)
            if probe.applies_to(model.config):
                return model
    raise AssertionError(f"{probe.name} fits no model")


def test_names_are_unique_and_described_in_a_line():
    assert len(BY_NAME) == len(CATALOGUE)
    for probe in CATALOGUE:
        assert 20 <= len(probe.description) <= 100
        assert "\n" not in probe.description


def test_unknown_names_and_options_are_answered():
    with pytest.raises(ValueError, match="no probe 'atention'; did you mean attention"):
        find("atention")
    with pytest.raises(
        ValueError, match="the probe attention has no option 'alpha'; it takes sequence, layer, head, seed"
    ):
        find("attention").run(small_model("dot"), alpha=3)


def test_applicable_lists_what_applies():
    config = small_model("lin").config
    assert set(applicable(config)) == {probe for probe in CATALOGUE if probe.why_not(config) is None}


def test_listing_imports_no_torch():
    code = "import counting_interp.probes.catalogue, sys; assert not {'torch', 'transformer_lens'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize("probe", EVERY_PROBE)
def test_meanings_stay_short(probe):
    module = import_module(probe.home.split(":")[0])
    (result,) = {kind for kind in vars(module).values() if getattr(kind, "probe", None) == probe.name}
    assert probe.name == "published" or result.meanings
    assert all(len(text) <= 100 for text in result.meanings.values())
