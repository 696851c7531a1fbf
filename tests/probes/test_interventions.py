"""The swap against its equation in the six variants, and under what a softmax does not see."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import construct
from counting_interp.probes.cue_conflict import cue_conflict, swap_residual_path
from tests.helpers import EVERY_MODEL, assert_close, small_model

TOKENS = torch.tensor([[0, 1, 2, 1, 0], [3, 3, 5, 5, 5]])
AT = torch.tensor([0, 3])
DONORS = torch.tensor([[1, 1, 2, 1, 0], [3, 3, 5, 3, 5]])  # 1 in place of 0, 3 in place of 5


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_the_swap_is_the_equation(variant, n_layers):
    """x' + (1 + A_ll)(x_s - x_t) at one position, nothing elsewhere, in either block."""
    model = small_model(variant, n_layers)
    bos = int(model.config.has_bos)
    _, before = model.run_with_cache(TOKENS)
    _, donor = model.run_with_cache(DONORS)
    for layer in range(n_layers):
        with model.hooks(swap_residual_path(model, TOKENS, DONORS, AT, layer=layer)):
            _, after = model.run_with_cache(TOKENS)
        change = after["resid_mid", layer] - before["resid_mid", layer]
        for row, here in enumerate((AT + bos).tolist()):
            donated, was = donor["resid_pre", layer][row, here], before["resid_pre", layer][row, here]
            expected = torch.zeros_like(change[row])
            expected[here] = (1 + before["pattern", layer][row, 0, here, here]) * (donated - was)
            assert_close(change[row], expected, 1e-12)


def test_a_donor_with_the_same_token_changes_nothing():
    model = small_model("bos+sftm")
    hooks = swap_residual_path(model, TOKENS, TOKENS, AT)
    assert_close(model.run_with_hooks(TOKENS, fwd_hooks=hooks), model(TOKENS), 1e-12)


@pytest.mark.parametrize("name", ["ic-dot+sftm", "rc-bos+sftm"])
def test_a_row_of_scores_may_lie_anywhere(name):
    """Under a softmax a constant may be added to all scores of a token. It is no symmetry of every model, only where
    the keys have a coordinate in common; what the swap says must not depend on it."""
    model = construct(name, T=8, L=5, d=12, dtype="float64")
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    d = model.config.d
    weights["embed.W_E"][:, -1] = 1.0  # not read by the hidden units
    shift = torch.randn(d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights["blocks.0.attn.W_Q"][:, -1] += 4 * d**0.5 * shift
    weights["blocks.0.attn.W_K"][-1, -1] = 1.0
    shifted = CountingTransformer(model.config, weights)
    tokens = torch.arange(5)[None]
    assert_close(shifted(tokens), model(tokens), 1e-9)
    assert torch.equal(cue_conflict(model).predicted, cue_conflict(shifted).predicted)
