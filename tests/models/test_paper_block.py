"""A new mixer is not one of the paper's blocks, even if it has the parameters of one."""

from __future__ import annotations

import dataclasses

import pytest

import counting_interp.models.config as config_module
from counting_interp.interp.pages.live import model_payload
from counting_interp.interp.proof import prove
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.interp.proof.repair.run import check_repairable
from counting_interp.interp.verdict.verdict import allows
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.blocks import MIXERS, DotProductMixer
from counting_interp.models.config import PAPER_MIXINGS, VARIANTS
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import why_no_kernels
from counting_interp.probes.applicability import (
    NotApplicable,
    needs_embedding_mixture,
    needs_paper_block,
    needs_published,
)
from counting_interp.util.errors import InterpError
from tests.models.constructions.carried import carried


@pytest.fixture
def fictional(monkeypatch) -> CountingTransformer:
    """The dot product under another name, of which those that know the paper's formulas cannot know."""
    monkeypatch.setattr("counting_interp.models.config.MIXINGS", (*PAPER_MIXINGS, "fictional"))
    declared = config_module._mixer
    monkeypatch.setattr(config_module, "_mixer", lambda config: declared(as_dot(config)))
    monkeypatch.setitem(MIXERS, "fictional", DotProductMixer)
    model = CountingTransformer(CountingConfig("fictional", softmax=True, T=32, L=10, d=8, p=32))
    assert set(model.state_dict()) == set(CountingTransformer(model.config.replace(mixing="dot")).state_dict())
    assert model.config.extras == ()
    return model


def as_dot(config: CountingConfig) -> CountingConfig:
    like = object.__new__(CountingConfig)
    like.__dict__.update(vars(config), mixing="dot")
    return like


def test_a_name_alone_is_no_mixer(monkeypatch):
    monkeypatch.setattr("counting_interp.models.config.MIXINGS", (*PAPER_MIXINGS, "fictional"))
    with pytest.raises(ValueError, match="weights of the mixer fictional are not declared"):
        CountingConfig("fictional", softmax=True, T=32, L=10, d=8, p=32)
    monkeypatch.setattr(config_module, "_mixer", lambda config: iter(()))
    config = CountingConfig("fictional", softmax=True, T=32, L=10, d=8, p=32)
    with pytest.raises(KeyError, match="fictional"):
        CountingTransformer(config)
    assert config.reads_positions  # so that training shuffles its sequences


def test_kernels_proofs_repairs_capacity_and_pages_refuse_it(fictional):
    config = fictional.config
    assert not config.is_paper_block
    assert "the mixer fictional" in str(why_no_kernels(config, Recipe()))
    for needed in (needs_paper_block, needs_published, needs_embedding_mixture):
        assert "the mixer fictional" in str(needed(config))
    assert "the mixer fictional" in allows(config)
    with pytest.raises(NotApplicable):
        prove(fictional)
    with pytest.raises(ValueError, match="fictional"):
        Reduction(fictional)
    with pytest.raises(ValueError, match="fictional"):
        carried(fictional)
    with pytest.raises(InterpError, match="fictional"):
        check_repairable(config)
    with pytest.raises(InterpError, match="fictional"):
        model_payload(fictional)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_papers_variants_are_its_blocks_and_nothing_beyond_them_is(variant):
    config = CountingConfig.parse(variant, T=6, L=4, d=8, p=4, n_layers=2, n_classes=5, dtype="float64", seed=3)
    assert config.is_paper_block
    for change in ({"values": True}, {"n_heads": 2}, {"layer_norm": True}, {"positions": True}, {"causal": True}):
        assert not config.replace(**change).is_paper_block
    assert not config.replace(activation="gelu").is_paper_block
    of_the_paper = {"mixing", "softmax", "T", "L", "d", "p", "n_layers", "n_classes", "frozen_embeddings", "dtype"}
    assert {field.name for field in dataclasses.fields(config)} - of_the_paper - {"seed"} == set(config_module._BEYOND)
