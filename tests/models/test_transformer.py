"""The hooked model against the paper's equations, its symmetries, and what it says to wrong input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.config import VARIANTS
from tests.helpers import EVERY_MODEL, assert_close, small_model
from tests.models.literal import literal_logits


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
@pytest.mark.parametrize("n_classes", [5, 6])
def test_forward_is_the_paper_s_equations(variant: str, n_layers: int, n_classes: int) -> None:
    model = small_model(variant, n_layers, n_classes=n_classes)
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    tokens = task.sample("paper", 20, T=7, L=5, generator=1)
    expected = np.stack([literal_logits(row, weights, model.config) for row in tokens.tolist()])
    assert_close(model(tokens).detach(), expected, 1e-10)


@pytest.mark.parametrize(("variant", "n_layers"), [pair for pair in EVERY_MODEL if pair[0][:3] != "lin"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_positions_are_equivariant_without_a_constant_mixer(variant, n_layers, data) -> None:
    model = small_model(variant, n_layers)
    tokens = torch.tensor(data.draw(st.lists(st.integers(0, 6), min_size=5, max_size=5)))
    order = torch.tensor(data.draw(st.permutations(range(5))))
    assert_close(model(tokens[order]), model(tokens)[order], 1e-10)


def test_constant_mixers_are_not_equivariant() -> None:
    model = small_model("lin")
    tokens = torch.tensor([0, 1, 2, 3, 4])
    assert not torch.allclose(model(tokens.flip(0)), model(tokens).flip(0))


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_renaming_tokens_with_their_embeddings_changes_nothing(variant, n_layers, data) -> None:
    model = small_model(variant, n_layers)
    names = torch.tensor(data.draw(st.permutations(range(7))))
    tokens = torch.tensor(data.draw(st.lists(st.integers(0, 6), min_size=5, max_size=5)))
    weights = model.state_dict()
    renamed = weights["embed.W_E"].clone()
    renamed[names] = weights["embed.W_E"][:7]
    other = CountingTransformer(model.config, {**weights, "embed.W_E": renamed})
    assert_close(other(names[tokens]), model(tokens), 1e-10)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_second_block_reads_the_first(variant: str) -> None:
    """The published two-layer code overwrote the first block's output; here every weight of it matters."""
    model = small_model(variant, n_layers=2, p=16)
    tokens = task.sample("paper", 30, T=7, L=5, generator=2)
    model(tokens).square().sum().backward()
    for name, weight in model.blocks[0].named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().max() > 1e-6, name
    weights = model.state_dict()
    moved = {**weights, "blocks.0.mlp.b_out": weights["blocks.0.mlp.b_out"] + 1}
    assert not torch.allclose(CountingTransformer(model.config, moved)(tokens), model(tokens))


@pytest.mark.parametrize("variant", VARIANTS)
def test_num_parameters_counts_the_tensors(variant: str) -> None:
    for n_layers in (1, 2):
        for frozen in (False, True):
            model = small_model(variant, n_layers, frozen_embeddings=frozen)
            assert model.num_parameters == sum(w.numel() for w in model.parameters() if w.requires_grad)


def test_the_seed_fixes_the_weights_and_nothing_else_does() -> None:
    before = torch.get_rng_state()
    first, again, other = (small_model("bos", seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_initialisation_is_the_published_one() -> None:
    config = CountingConfig.parse("dot", T=64, L=10, d=64, p=64)
    weights = CountingTransformer(config).state_dict()
    assert abs(float(weights["embed.W_E"].std()) - 1) < 0.05
    frozen = CountingTransformer(config.replace(frozen_embeddings=True)).state_dict()
    assert abs(float(frozen["embed.W_E"].std()) - 1 / 8) < 0.01
    for name in ("attn.W_Q", "attn.W_K", "mlp.W_in", "mlp.b_in", "mlp.W_out", "mlp.b_out"):
        largest = float(weights[f"blocks.0.{name}"].abs().max())
        assert 0.7 / 8 < largest <= 1 / 8, name
    lin = CountingTransformer(CountingConfig.parse("lin", T=64, L=16, d=4, p=4))
    assert 0.9 / 4 < float(lin.state_dict()["blocks.0.attn.A"].abs().max()) <= 1 / 4


@pytest.mark.parametrize("n_classes", [5, 6])
def test_predict_and_accuracy(n_classes: int) -> None:
    """A model whose bias alone decides always says three, whatever class stands for three."""
    model = small_model("dot", n_classes=n_classes)
    weights = model.state_dict()
    bias = torch.zeros(n_classes, dtype=torch.float64)
    bias[3 - model.config.first_count] = 1e6
    model = CountingTransformer(model.config, {**weights, "blocks.0.mlp.b_out": bias})
    tokens = task.sample("paper", 400, T=7, L=5, generator=0)
    assert (model.predict(tokens) == 3).all()
    assert model.accuracy(tokens) == float((task.histogram(tokens) == 3).double().mean())
    assert abs(model.accuracy(n=4000, sampler="paper") - 1 / 5) < 0.03
    assert model.count_logits(model(tokens)).shape == (400, 5, 5)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([0, 1, 2, 3, 7], r"tokens must lie in 0..6, got values from 0 to 7"),
        ([-1, 1, 2, 3, 4], r"got values from -1 to 4"),
        ([0, 1, 2, 3], r"sequences of L=5 tokens, got 4"),
        ([0, 1, 2, 3, 4, 5], r"sequences of L=5 tokens, got 6"),
        ([[[0, 1, 2, 3, 4]]], r"must have shape \[batch, 5\] or \[5\], got \[1, 1, 5\]"),
    ],
)
@pytest.mark.parametrize("variant", ["lin", "dot", "bos+sftm"])
def test_wrong_tokens_get_a_clear_error(variant, tokens, message) -> None:
    with pytest.raises(ValueError, match=message):
        small_model(variant)(torch.tensor(tokens))


def test_one_sequence_and_a_batch_agree() -> None:
    model = small_model("bos+sftm")
    tokens = task.sample("paper", 3, T=7, L=5, generator=0)
    assert_close(model(tokens[1]), model(tokens)[1])
    assert_close(model(model.with_bos(tokens)), model(tokens))
    assert model(tokens[:0]).shape == (0, 5, 5)


def test_mixing_matrix_and_qk() -> None:
    lin, dot = small_model("lin+sftm"), small_model("dot")
    assert_close(lin.mixing_matrix().sum(-1), torch.ones(5))
    tokens = torch.arange(5)
    _, cache = dot.run_with_cache(tokens)
    form = dot.QK[0, 0].AB / dot.config.d_head**0.5
    assert_close((dot.W_E[:5] @ form @ dot.W_E[:5].T).detach(), cache["attn_scores", 0][0, 0].detach(), 1e-9)
    assert_close(dot.QK.AB, dot.W_Q @ dot.W_K.mT)  # as TransformerLens defines it
    with pytest.raises(ValueError, match=r"lin\+sftm has no queries and keys"):
        _ = lin.QK
    with pytest.raises(ValueError, match="depends on the sequence; read hook_pattern"):
        dot.mixing_matrix()
