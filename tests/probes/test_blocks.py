"""Every probe on every block beyond the paper's: a result, or a sentence that says why not."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
import torch

from counting_interp.interp.proof import prove
from counting_interp.models import task
from counting_interp.models.constructions import construct
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.attention import attention
from counting_interp.probes.catalogue import CATALOGUE
from counting_interp.probes.cue_conflict import cue_conflict
from counting_interp.probes.designs import conflict_design, every_count
from tests.helpers import BLOCKS, small_block
from tests.models.constructions.carried import carried


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("probe", CATALOGUE, ids=lambda probe: probe.name)
def test_a_result_or_a_reason(probe, name):
    model = small_block(name)
    reason = probe.why_not(model.config)
    if reason is not None:
        with pytest.raises(NotApplicable):
            probe.run(model)
    else:
        with suppress(NotApplicable) if probe.name == "step-function" else nullcontext():  # which looks at weights, too
            assert probe.run(model).rows() is not None


def test_proofs_refuse_by_what_a_block_has():
    with pytest.raises(NotApplicable, match=r"derived for the paper's blocks, and dot\+values\+norm has values, norm"):
        prove(small_block("dot+values+norm"))


def test_attention_looks_at_the_head_that_compares():
    """The second of two heads gives equal tokens a high score; the first one scores nothing."""
    model = small_block("dot+sftm+2heads", d=14)
    weights = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    weights["embed.W_E"][:, :7] = torch.eye(7)
    for name in ("W_Q", "W_K"):
        weights[f"blocks.0.attn.{name}"][1, :7] = 3 * torch.eye(7)
    model.load_state_dict(weights)
    found = attention(model, n=50)
    assert found.head == 1
    assert found.auc_within == 1
    assert attention(model, head=0, n=50).auc_within == 0.5
    with pytest.raises(ValueError, match=r"head must lie in 0\.\.1"):
        attention(model, head=2)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", ["rc-bos+sftm", "ic-bos+sftm", "rc-dot", "ic-lin"])
def test_a_cue_conflict_is_the_same_through_values_heads_and_norms(name, layer_norm):
    """The same answers as for the original, to every question: the function of each activation is the same."""
    model = construct(name, 8, 5, dtype="float64")
    other = carried(model, n_heads=2, layer_norm=layer_norm)
    assert torch.equal(cue_conflict(model, n_pairs=8).predicted, cue_conflict(other, n_pairs=8).predicted)


def test_in_causal_models_conflicts_are_put_to_the_place_that_sees_all():
    design = conflict_design(small_block("dot+sftm+causal").config)
    assert bool((design.at == 4).all())


def test_causal_designs_read_where_the_count_is_complete():
    config = small_block("dot+sftm+causal").config
    sequences, where = every_count(config, 2, 0)
    counts = task.running_count(sequences).gather(-1, where[..., None])[..., 0]
    assert torch.equal(counts, torch.arange(1, 6)[None, :, None].expand_as(counts))
