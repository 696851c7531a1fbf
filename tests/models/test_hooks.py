"""TransformerLens idioms on every variant: caches, hooks, its own patching, and help with mistyped names."""

from __future__ import annotations

import pytest
import torch
from transformer_lens import ActivationCache, patching

from counting_interp.models import task
from tests.helpers import EVERY_MODEL, assert_close, small_model

POSITIONS = {"lin": 5, "lin+sftm": 5, "dot": 5, "dot+sftm": 5, "bos": 6, "bos+sftm": 6}


def tokens(seed: int, n: int = 4) -> torch.Tensor:
    return task.sample("paper", n, T=7, L=5, generator=seed)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_cache_shapes(variant: str, n_layers: int) -> None:
    model = small_model(variant, n_layers)
    logits, cache = model.run_with_cache(tokens(0))
    assert isinstance(cache, ActivationCache)
    pos, last = POSITIONS[variant], n_layers - 1
    for layer in range(n_layers):
        assert cache["resid_pre", layer].shape == (4, pos, 6)
        assert cache["v", layer].shape == cache["z", layer].shape == (4, pos, 1, 6)
        assert cache["attn_scores", layer].shape == cache["pattern", layer].shape == (4, 1, pos, pos)
        assert cache["resid_mid", layer].shape == cache["attn_out", layer].shape == (4, pos, 6)
        assert cache["pre", layer].shape == cache["post", layer].shape == (4, pos, 4)
        assert ("blocks.0.attn.hook_q" in cache) == (not variant.startswith("lin"))
    assert cache["hook_embed"].shape == (4, pos, 6)
    assert_close(cache["mlp_out", last][:, -5:], logits)
    if variant.endswith("sftm"):
        assert_close(cache["pattern", 0].sum(-1), torch.ones(4, 1, pos))


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_the_mixed_token_is_residual_plus_mixture(variant: str, n_layers: int) -> None:
    _, cache = small_model(variant, n_layers).run_with_cache(tokens(0))
    for layer in range(n_layers):
        x = cache["resid_pre", layer]
        assert_close(cache["resid_mid", layer], x + cache["pattern", layer][:, 0] @ x, 1e-10)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_every_hook_point_acts_on_the_output(variant: str, n_layers: int) -> None:
    """Scrambling any activation changes the logits: no hook point is a dead end."""
    model = small_model(variant, n_layers, p=16)
    clean = model(tokens(0))
    for name in model.hook_dict:
        noise = torch.Generator().manual_seed(0)

        def scramble(value, hook, noise=noise):
            return value + torch.randn(value.shape, generator=noise, dtype=value.dtype)

        changed = model.run_with_hooks(tokens(0), fwd_hooks=[(name, scramble)])
        assert not torch.allclose(changed, clean), name
    assert_close(model(tokens(0)), clean)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_in_place_hooks_do_not_reach_other_activations(variant: str, n_layers: int) -> None:
    model = small_model(variant, n_layers)
    _, clean = model.run_with_cache(tokens(0))

    def wipe(value, hook):
        value.mul_(0)

    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_v", wipe)]):
        _, cache = model.run_with_cache(tokens(0), reset_hooks_end=False)
    assert_close(cache["resid_pre", 0], clean["resid_pre", 0])
    assert_close(cache["resid_mid", 0], clean["resid_pre", 0])


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_transformer_lens_patching(variant: str, n_layers: int) -> None:
    """Patching every position of the first residual stream one by one; patching all at once restores the clean run."""
    model = small_model(variant, n_layers)
    clean, corrupted = model.with_bos(tokens(1)), model.with_bos(tokens(2))
    _, cache = model.run_with_cache(clean)

    def metric(logits):
        return logits[:, -1].sum()

    by_position = patching.get_act_patch_resid_pre(model, corrupted, cache, metric)
    assert by_position.shape == (n_layers, POSITIONS[variant])
    by_head = patching.get_act_patch_attn_head_pattern_all_pos(model, corrupted, cache, metric)
    assert by_head.shape == (n_layers, 1)
    patching.get_act_patch_mlp_out(model, corrupted, cache, metric)
    patching.get_act_patch_attn_out(model, corrupted, cache, metric)
    restored = model.run_with_hooks(corrupted, fwd_hooks=[("hook_embed", lambda value, hook: cache["hook_embed"])])
    assert_close(restored, model(clean))


@pytest.mark.parametrize("variant", ["bos", "bos+sftm"])
def test_patching_by_position_is_refused_without_the_start_token(variant: str) -> None:
    """Position 0 would be `$`, and the last token never patched."""
    model = small_model(variant)
    _, cache = model.run_with_cache(tokens(1))
    with pytest.raises(ValueError, match=r"give it model\.with_bos\(tokens\)"):
        patching.get_act_patch_resid_pre(model, tokens(2), cache, lambda logits: logits.sum())
    with_start = model.with_bos(tokens(2))
    changed = patching.get_act_patch_resid_pre(model, with_start, cache, lambda logits: logits[:, -1].sum())
    plain = model(tokens(2))[:, -1].sum().to(changed.dtype)
    assert not torch.isclose(changed[0, -1], plain)  # the last token is patched


def test_unknown_hook_names_are_answered_with_the_nearest() -> None:
    model = small_model("lin")

    def identity(value, hook):
        return value

    near = r"lin has no hook point 'blocks.0.attn.hook_patern'; did you mean blocks.0.attn.hook_pattern"
    with pytest.raises(ValueError, match=near):
        model.run_with_hooks(tokens(0), fwd_hooks=[("blocks.0.attn.hook_patern", identity)])
    with pytest.raises(ValueError, match=near):
        model.run_with_cache(tokens(0), names_filter="blocks.0.attn.hook_patern")
    with pytest.raises(ValueError, match=near):
        model.run_with_cache(tokens(0), names_filter=["blocks.0.attn.hook_patern"])
    with pytest.raises(ValueError, match=near):
        model.add_hook("blocks.0.attn.hook_patern", identity)
    with pytest.raises(ValueError, match=r"did you mean|there are"):
        model.add_hook("zzz", identity)
