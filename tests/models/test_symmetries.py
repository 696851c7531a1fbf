"""Symmetries keep every logit (or every prediction, up to the renaming), and they do change the weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.models import task
from counting_interp.models.constructions import CATALOGUE, construct
from counting_interp.models.symmetries import random_symmetry, rename_positions, rename_tokens
from tests.helpers import EVERY_MODEL, assert_close, small_model
from tests.models.constructions.cases import all_multisets, two_token_sequences

seeds = st.integers(0, 2**32)


def sequences(model, n: int = 50):
    return task.sample("uniform", n, T=model.config.T, L=model.config.L, generator=0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(EVERY_MODEL), seeds)
def test_the_function_stays(variant_and_layers, seed):
    model = small_model(*variant_and_layers, seed=seed % 5)
    other = random_symmetry(model, seed)
    assert other.config == model.config
    assert_close(other(sequences(model)), model(sequences(model)), 1e-8)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_every_weight_but_the_last_bias_changes(variant, n_layers):
    model = small_model(variant, n_layers)
    other = random_symmetry(model, 1, rename=True).state_dict()
    kept = [name for name, value in model.state_dict().items() if torch.equal(value, other[name])]
    assert kept == [f"blocks.{n_layers - 1}.mlp.b_out"]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(EVERY_MODEL), seeds)
def test_renaming_renames(variant_and_layers, seed):
    model = small_model(*variant_and_layers)
    rng = torch.Generator().manual_seed(seed)
    x = sequences(model)
    tokens = torch.randperm(model.config.T, generator=rng)
    assert torch.equal(rename_tokens(model, tokens)(tokens[x]), model(x))
    if model.config.mixing == "lin":
        positions = torch.randperm(model.config.L, generator=rng)
        moved = torch.empty_like(x)
        moved[:, positions] = x
        assert_close(rename_positions(model, positions)(moved)[:, positions], model(x), 1e-12)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_construction_still_counts_after_any_symmetry(name):
    model = construct(name, 8, 5)
    for seed in range(5):
        assert random_symmetry(model, seed, rename=True).accuracy(all_multisets(8, 5)) == 1
    assert random_symmetry(construct(name), 0, rename=True).accuracy(two_token_sequences(32, 10)) == 1


def test_the_seed_fixes_the_change():
    model = small_model("bos+sftm", 2)
    first, again, other = (random_symmetry(model, seed).W_E for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
