"""Blocks beyond the paper's: against a literal implementation, under symmetries, through TransformerLens' tools."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from transformer_lens import patching

from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.symmetries import random_symmetry
from tests.helpers import BLOCKS, assert_close, small_block, small_model
from tests.models.literal import literal_logits

EVERYTHING = "bos+sftm+values+2heads+norm+gelu+positions+causal"


def tokens(n: int = 6, seed: int = 1) -> torch.Tensor:
    return task.sample("paper", n, T=7, L=5, generator=seed)


@pytest.mark.parametrize("name", BLOCKS)
def test_forward_is_a_textbook_s(name: str) -> None:
    model = small_block(name, n_layers=2)
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    expected = np.stack([literal_logits(row, weights, model.config) for row in tokens().tolist()])
    assert_close(model(tokens()).detach(), expected, 1e-10)


@pytest.mark.parametrize("name", BLOCKS)
def test_names_parameters_and_files(name: str, tmp_path) -> None:
    model = small_block(name, n_layers=2)
    config = model.config
    assert config.name == name
    assert CountingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert {one.name: one.shape for one in config.parameters} == {
        k: tuple(w.shape) for k, w in model.state_dict().items()
    }
    assert config.num_weights == sum(weight.numel() for weight in model.parameters())
    for file in (tmp_path / "a.pt", tmp_path / "a.safetensors"):
        model.save(file)
        again = CountingTransformer.load(file)
        assert again.config == config
        assert torch.equal(again(tokens()), model(tokens()))


def test_files_of_the_paper_s_models_say_nothing_of_other_blocks() -> None:
    plain = small_model("dot").config
    beyond = {"values", "n_heads", "layer_norm", "activation", "positions", "causal"}
    assert not beyond & set(plain.to_dict())
    assert beyond < set(dataclasses.asdict(plain))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dot+magic", r"ends in '\+magic', which is none of \+sftm, \+values, \+4heads"),
        ("lin+0heads", "n_heads must divide d=6, got 0"),
        ("dot+4heads", "n_heads must divide d=6, got 4"),
        ("conv+values", "must be one of lin, lin"),
    ],
)
def test_impossible_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_model(name)


@pytest.mark.parametrize("name", [name for name in BLOCKS if "causal" in name])
def test_a_causal_block_does_not_see_what_comes_later(name: str) -> None:
    model = small_block(name, n_layers=2)
    changed = tokens()
    changed[:, 3:] = (changed[:, 3:] + 1) % 7
    assert_close(model(changed)[:, :3], model(tokens())[:, :3], 1e-12)
    assert not torch.allclose(model(changed)[:, 3:], model(tokens())[:, 3:])


def test_the_truth_of_causal_models_is_the_count_so_far() -> None:
    sequence = torch.tensor([3, 1, 3, 3, 1])
    assert task.running_count(sequence).tolist() == [1, 1, 2, 3, 2]
    assert small_block("dot+causal").truth(sequence).tolist() == [1, 1, 2, 3, 2]
    assert small_model("dot").truth(sequence).tolist() == [3, 2, 3, 3, 2]


@pytest.mark.parametrize("sampler", task.SAMPLERS)
def test_labels_of_causal_models_have_the_stated_distribution(sampler: str) -> None:
    """Over 20,000 sequences; the standard error of a share is below 0.002 (positions of a sequence correlate)."""
    counts = task.running_count(task.sample(sampler, 20_000, T=7, L=5, generator=0))
    shares = torch.bincount(counts.flatten(), minlength=6)[1:] / counts.numel()
    expected = task.label_distribution(sampler, T=7, L=5, causal=True)
    assert_close(expected.sum(), 1.0)
    assert float((shares - expected).abs().max()) < 0.01


@pytest.mark.parametrize("name", BLOCKS)
def test_symmetries_keep_the_function(name: str) -> None:
    model = small_block(name, n_layers=2)
    for seed in range(3):
        other = random_symmetry(model, seed)
        assert_close(other(tokens()), model(tokens()), 1e-8)
        assert not torch.equal(other.W_E, model.W_E)
    assert random_symmetry(model, 0, rename=True).config == model.config


def test_renaming_positions_moves_the_answers() -> None:
    from counting_interp.models.symmetries import rename_positions

    order = torch.tensor([2, 0, 4, 1, 3])
    for name in ("bos+sftm+positions", "lin+2heads"):
        model = small_block(name)
        moved = torch.empty_like(tokens())
        moved[:, order] = tokens()
        assert_close(rename_positions(model, order)(moved)[:, order], model(tokens()), 1e-10)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_stream_is_the_sum_of_its_parts(name: str, n_layers: int) -> None:
    model = small_block(name, n_layers)
    _, cache = model.run_with_cache(tokens())
    last = cache["resid_mid", n_layers - 1]
    parts, labels = cache.decompose_resid(return_labels=True)
    assert_close(parts.sum(0), last, 1e-10)
    assert labels[-1] == f"{n_layers - 1}_attn_out"
    assert_close(cache.accumulated_resid()[-1], last)
    heads, names = cache.stack_head_results(return_labels=True)
    assert len(names) == n_layers * model.config.n_heads
    assert_close(heads[-model.config.n_heads :].sum(0), cache["attn_out", n_layers - 1], 1e-10)


@pytest.mark.parametrize("name", ["lin", "bos+sftm", *BLOCKS])
def test_the_logits_are_the_sum_of_what_is_attributed(name: str) -> None:
    """Up to what the biases add through the same hidden units."""
    model = small_block(name, n_layers=2, n_classes=6)
    logits, cache = model.run_with_cache(tokens())
    last, prefix = model.blocks[-1], model.config.prefix
    share = torch.where(cache["pre", 1] > 0, 1.0, 0.0).double()
    if model.config.activation == "gelu":
        share = torch.special.ndtr(cache["pre", 1])
    bias = (
        last.mlp.b_in + last.ln2(torch.zeros(6, dtype=torch.float64)) @ last.mlp.W_in
    )  # of zeros, a norm's bias is left
    rest = (share * bias) @ last.mlp.W_out + last.mlp.b_out
    parts = cache.decompose_resid()
    for of_class in (0, 3):
        attributed = cache.logit_attrs(parts, of_class).sum(0) + rest[..., of_class]
        assert_close(attributed[:, prefix:].detach(), logits[..., of_class].detach(), 1e-9)


def test_attributions_of_a_difference_at_one_place() -> None:
    model = small_block(EVERYTHING)
    _, cache = model.run_with_cache(tokens())
    right, wrong = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 2, 3, 4, 0, 1])
    both = [cache.logit_attrs(cache.decompose_resid(), which) for which in (right, wrong)]
    assert both[0].shape == (3, 6, 6)  # embeddings, positions, attention; sequences; positions
    here = cache.decompose_resid(pos_slice=-1)
    assert_close(cache.logit_attrs(here, right, wrong, pos_slice=-1).detach(), (both[0] - both[1])[..., -1].detach())
    second = cache.logit_attrs(cache.decompose_resid(), right[1:2], batch_slice=[1])
    assert_close(second.detach(), both[0][:, 1:2].detach())


def test_normalised_parts_are_what_the_layer_reads() -> None:
    """Up to gain and bias: TransformerLens divides every part by the scale of their sum."""
    model = small_block("dot+sftm+values+norm")
    _, cache = model.run_with_cache(tokens())
    weights = model.state_dict()
    read = cache.decompose_resid(apply_ln=True).sum(0) * weights["blocks.0.ln2.w"] + weights["blocks.0.ln2.b"]
    assert_close(read, cache["blocks.0.ln2.hook_normalized"], 1e-10)


def test_weights_by_transformer_lens_names() -> None:
    model = small_block(EVERYTHING, 2)
    assert model.W_Q.shape == model.W_K.shape == model.W_V.shape == (2, 2, 6, 3)
    assert model.W_O.shape == (2, 2, 3, 6)
    assert model.W_in.shape == (2, 6, 4)
    assert_close(model.OV[1, 1].AB, model.blocks[1].attn.W_V[1] @ model.blocks[1].attn.W_O[1])
    assert_close(small_model("dot").OV.AB[0, 0], torch.eye(6))
    assert small_model("dot").W_Q.shape == (1, 1, 6, 6)
    with pytest.raises(AttributeError, match="W_out has another shape in the last block"):
        _ = model.W_out
    with pytest.raises(AttributeError, match="lin has no W_Q"):
        _ = small_model("lin").W_Q
    with pytest.raises(AttributeError, match="no unembedding: the last feed-forward layer writes the logits itself"):
        _ = model.W_U


def test_loss_and_stopping() -> None:
    model = small_block(EVERYTHING, 2)
    logits, loss = model(tokens(), return_type="both")
    classes = task.running_count(tokens()) - 1
    assert_close(loss, torch.nn.functional.cross_entropy(logits.flatten(0, 1), classes.flatten()))
    assert_close(model(tokens(), return_type="loss"), loss)
    assert model(tokens(), return_type=None) is None
    _, cache = model.run_with_cache(tokens())
    for layer in (0, 1):
        assert_close(model(tokens(), stop_at_layer=layer), cache["resid_pre", layer])
    with pytest.raises(ValueError, match="stop_at_layer must name a block of this model of 2, got 2"):
        model(tokens(), stop_at_layer=2)


def test_patching_by_head() -> None:
    model = small_block(EVERYTHING, 2)
    clean, corrupted = model.with_bos(tokens(seed=1)), model.with_bos(tokens(seed=2))
    _, cache = model.run_with_cache(clean)

    def metric(logits):
        return logits[:, -1].sum()

    assert patching.get_act_patch_attn_head_out_all_pos(model, corrupted, cache, metric).shape == (2, 2)
    assert patching.get_act_patch_attn_head_v_all_pos(model, corrupted, cache, metric).shape == (2, 2)
