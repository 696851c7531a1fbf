"""The share of `$`: the shares printed with the published construction, and models in which it means nothing."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import task
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.bos_share import bos_share, set_share
from counting_interp.probes.designs import every_count
from tests.helpers import assert_close, small_block, small_model
from tests.probes.planted import built, other_basis

PUBLISHED = [0.188291, 0.168264, 0.152088, 0.138749, 0.127561, 0.118043, 0.109846, 0.102714, 0.096452, 0.090909]


def test_the_construction_has_the_published_shares_and_follows_them():
    result = bos_share(built("rc-bos+sftm", T=32, L=10))
    assert_close(result.share, torch.tensor(PUBLISHED).expand(32, 10), 1e-6)
    assert_close([result.low[0], result.high[-1]], [PUBLISHED[0], PUBLISHED[-1]], 1e-6)
    assert_close(result.by_count, 1.0)
    assert_close(result.by_token, 0.0)
    assert result.monotonicity == -1.0
    assert_close(result.gap, PUBLISHED[-2] - PUBLISHED[-1], 2e-6)
    assert (result.follows, result.stays, result.unmoved, result.accuracy) == (1.0, 0.0, 1.0, 1.0)
    assert_close(result.predicted, torch.arange(1, 11).expand(10, 10))


@pytest.mark.parametrize(("name", "share"), [("ic-bos+sftm", 1 / 7), ("rc-bos", 1.0), ("ic-bos", 0.0)])
def test_a_share_that_carries_no_count(name, share):
    """Equal shares for all; or no softmax, where the weight of `$` depends on the token alone."""
    result = bos_share(built(name, T=12, L=6))
    assert_close(result.share, torch.full((12, 6), share), 1e-7)
    assert result.by_count is None
    assert result.monotonicity == 0.0
    assert result.gap < 1e-12
    assert (result.follows, result.stays) == (0.0, 1.0)
    assert_close(result.predicted, torch.arange(1, 7)[:, None].expand(6, 6))


def test_without_softmax_the_share_varies_by_token_only():
    result = bos_share(small_model("bos"))
    assert_close(result.by_token, 1.0)
    assert_close(result.by_count, 0.0)


def test_an_untrained_model_does_not_follow():
    result = bos_share(small_model("bos+sftm"))
    assert result.follows < 0.4
    assert result.gap < 0


def test_half_of_a_hybrid_follows():
    """Read out as the mean of both circuits, the prediction moves with the share, but not all the way."""
    result = bos_share(built("hybrid-bos+sftm", T=12, L=6, weight=0.5))
    moved = result.predicted[0] - result.predicted[0, 0]
    assert 1 < float(moved[-1]) < 4
    assert result.accuracy == 1.0


@pytest.mark.parametrize("variant", ["lin", "lin+sftm", "dot", "dot+sftm"])
def test_says_no_without_bos(variant):
    with pytest.raises(NotApplicable, match=r"has no `\$` token"):
        bos_share(small_model(variant))


@pytest.mark.parametrize(("variant", "n_layers"), [("bos", 1), ("bos+sftm", 1), ("bos+sftm", 2)])
def test_by_hand_through_hooks(variant, n_layers):
    model = small_model(variant, n_layers)
    layer = n_layers - 1
    result = bos_share(model, layer=layer, repeats=2, seed=5)
    tokens, where = every_count(model.config, 2, 5)
    for t, k in ((0, 0), (3, 2), (6, 4)):
        shares = []
        for row, position in zip(tokens[t, k], where[t, k], strict=True):
            _, cache = model.run_with_cache(row)
            shares.append(float(cache["pattern", layer][0, 0, 1 + position, 0]))
            assert row[position] == t
            assert (row == t).sum() == k + 1
        assert_close(result.share[t, k], sum(shares) / 2)


def test_setting_the_share_keeps_rows_summing_to_one_and_the_rest_in_proportion():
    model = small_model("bos+sftm")
    tokens = task.sample("paper", 8, T=7, L=5, generator=0)
    share = torch.full((8, 5), 0.3, dtype=torch.float64)
    seen = {}
    name = "blocks.0.attn.hook_z"
    with model.hooks([(name, lambda z, hook: seen.update(z=z[:, 1:, 0]))]):
        set_share(model, tokens, share)
    _, cache = model.run_with_cache(tokens)
    pattern = cache["pattern", 0][:, 0, 1:]
    rest = 0.7 * pattern[..., 1:] / pattern[..., 1:].sum(-1, keepdim=True)
    assert_close(seen["z"], 0.3 * model.W_E[7] + rest @ model.W_E[tokens])


def test_setting_the_share_to_itself_changes_nothing():
    model = small_model("bos+sftm")
    tokens = task.sample("paper", 50, T=7, L=5, generator=0)
    _, cache = model.run_with_cache(tokens)
    assert torch.equal(set_share(model, tokens, cache["pattern", 0][:, 0, 1:, 0]), model.predict(tokens))


def test_the_basis_does_not_matter():
    model = built("hybrid-bos+sftm", T=8, L=4)
    mine, other = bos_share(model), bos_share(other_basis(model))
    assert_close(other.share, mine.share, 1e-7)
    assert_close(other.predicted, mine.predicted, 1e-7)


@pytest.mark.parametrize("head", [None, 0, 1])
def test_of_several_heads_the_one_that_counts_is_chosen_or_the_one_that_is_named(head):
    """Both heads give `$` a weight; only one of them goes with the count."""
    model = small_block("bos+sftm+values+2heads")
    tokens, where = every_count(model.config, 4, 0)
    _, cache = model.run_with_cache(tokens.reshape(-1, model.config.L))
    every = cache["pattern", 0][:, :, 1:, 0].gather(2, where.reshape(-1, 1, 1).expand(-1, 2, 1))[..., 0]
    result = bos_share(model, head=head)
    goes_with_count = [bos_share(model, head=one).by_count for one in (0, 1)]
    assert result.head == (goes_with_count.index(max(goes_with_count)) if head is None else head)
    assert_close(result.share, every[:, result.head].reshape(*tokens.shape[:3]).mean(-1))
    with pytest.raises(ValueError, match=r"head must lie in 0\.\.1"):
        bos_share(model, head=2)
