"""Verdicts on blocks beyond the paper's whose mechanism is known: carried over from constructions, or enforced."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from counting_interp.interp.cli.classify import as_text
from counting_interp.interp.verdict import Verdict, classify
from counting_interp.interp.verdict.files import classify_file
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.constructions import construct
from counting_interp.models.training import Recipe, Run
from tests.helpers import small_block
from tests.models.constructions.carried import carried

RECIPE = Recipe(epochs=1, sequences=25_600, batch_size=64, lr=1e-2, schedule="cosine", validation=500)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize(("name", "label"), [("rc-bos+sftm", "RC"), ("ic-dot+sftm", "IC")])
def test_constructions_keep_their_label_in_values_heads_and_norms(name, label, layer_norm):
    verdict = classify(carried(construct(name, 8, 5), n_heads=2, layer_norm=layer_norm), quick=True)
    assert (verdict.mechanism.group, verdict.accuracy) == (label, 1)


def trained(config: CountingConfig, weights: dict[str, Tensor]) -> tuple[CountingTransformer, Verdict]:
    run = Run(config, RECIPE, weights)
    run.advance()
    return run.model(), classify(run.model(), quick=True)


@pytest.mark.slow
def test_an_attention_frozen_to_a_constant_leaves_an_inventory_only():
    """With W_Q = W_K = 0 all scores are zero, and so are the gradients of both."""
    config = CountingConfig.parse("bos+sftm+values+2heads+norm+gelu", T=6, L=4, d=16, p=48)
    weights = CountingTransformer(config).state_dict()
    frozen = ("blocks.0.attn.W_Q", "blocks.0.attn.W_K")
    model, verdict = trained(config, weights | {name: torch.zeros_like(weights[name]) for name in frozen})
    assert not any(model.state_dict()[name].any() for name in frozen)
    assert (verdict.mechanism.value, verdict.accuracy > 0.95) == ("IC", True)


@pytest.mark.slow
def test_one_hidden_unit_leaves_a_relation_only():
    """One unit reads one number, which cannot say whose count it is. From a construction so disturbed that it counts
    no better than chance: from random weights the only unit mostly dies."""
    start = carried(construct("rc-bos+sftm", 6, 4), n_heads=2)
    rng = torch.Generator().manual_seed(0)
    weights = {
        name: weight + 0.1 * weight.abs().max() * torch.randn(weight.shape, generator=rng, dtype=weight.dtype)
        for name, weight in start.state_dict().items()
    }
    assert CountingTransformer(start.config, weights).accuracy(n=500) < 0.4
    _, verdict = trained(start.config, weights)
    assert (verdict.mechanism.value, verdict.accuracy > 0.95) == ("RC", True)


@pytest.mark.parametrize("name", ["dot+gelu+causal", "bos+sftm+values+2heads"])
def test_nothing_is_proved_by_a_formula_of_other_blocks(tmp_path, name):
    """A causal block with GELU has the shapes of a paper's one, and a proof of that one was once given for it."""
    small_block(name).save(tmp_path / "t.pt")
    found = classify_file(tmp_path / "t.pt", quick=True, prove=True)
    assert found.verdict.proved is None
    assert f"proved    nothing: this is derived for the paper's blocks, and {name} has" in as_text(found.path, found)
