"""The cue conflict in closed form: vertical stripes, horizontal ones, and a planted mixture."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import task
from counting_interp.models.constructions import construct
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.cue_conflict import cue_conflict
from counting_interp.probes.designs import conflict_design
from tests.helpers import assert_close, small_model

RC = ("rc-bos", "rc-bos-tagged", "rc-bos+sftm", "rc-dot")
CONSTANT_IC = ("ic-lin", "ic-lin+sftm", "ic-dot", "ic-bos", "ic-bos+sftm")


@pytest.mark.parametrize("name", RC)
def test_relation_based_counting_follows_the_count_that_attention_compared(name):
    result = cue_conflict(construct(name, T=12, L=6))
    i = result.cells[:, 0].expand_as(result.predicted)
    assert_close(result.slopes, torch.tensor([[1.0, 0.0]]).expand_as(result.slopes), 1e-9)
    # the swap moves every prediction by one and the same amount; in these constructions by none
    assert (result.predicted - i).unique().numel() == 1
    assert result.share == pytest.approx(1)


@pytest.mark.parametrize("name", CONSTANT_IC)
def test_inventory_based_counting_says_the_count_of_s_and_the_copy_it_was_given(name):
    """The self path brings one more copy of s to the unit that counts s: j + 1, at every pair and cell."""
    result = cue_conflict(construct(name, T=12, L=6))
    assert (result.predicted == (result.cells[:, 1] + 1)).all()
    assert result.follows == (pytest.approx(0, abs=1e-9), pytest.approx(1))


def test_softmax_inventory_follows_s_and_never_t():
    """In `ic-dot+sftm` unit s reads (e + j) / (L + i (e - 1)): more with j, less with i."""
    L, e = 6, torch.e
    model = construct("ic-dot+sftm", T=12, L=L)
    result = cue_conflict(model)
    i, j = result.cells.double().unbind(1)
    share = (e + j) / (L + i * (e - 1))
    k = torch.arange(1, L + 1)
    shares = k * e / (L + k * (e - 1))
    nearest = (share[:, None] - shares).abs().argmin(1) + 1
    assert ((result.predicted - nearest).abs() <= 1).all()
    with_t, with_s = result.follows
    assert with_t < 0 < with_s


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("name", ["hybrid-dot", "hybrid-bos", "hybrid-bos+sftm"])
def test_a_planted_hybrid_is_split_by_its_weight(name, weight):
    with_t, with_s = cue_conflict(construct(name, T=16, L=10, weight=weight)).follows
    assert with_t == pytest.approx(weight, abs=0.07)
    assert with_s == pytest.approx(1 - weight, abs=0.07)


def test_a_constant_model_follows_nobody():
    model = small_model("bos", T=9, L=6)
    with torch.no_grad():
        model.blocks[0].mlp.W_out.zero_()
    result = cue_conflict(model)
    assert result.follows == pytest.approx((0, 0), abs=1e-12)
    assert result.share is None


@pytest.mark.parametrize("name", ["ic-dot-coherence", "ic-bos-coherence"])
def test_a_gated_count_follows_neither(name):
    """The overlap of s with t lets a little of it through, of either sign."""
    assert max(map(abs, cue_conflict(construct(name, T=12, L=5)).follows)) < 0.3


@pytest.mark.parametrize(("T", "L", "n_pairs"), [(3, 3, 99), (7, 7, 10), (32, 10, 64), (40, 30, 8)])
def test_the_design_is_what_it_says(T, L, n_pairs):
    design = conflict_design(small_model("dot", T=T, L=L).config, n_pairs=n_pairs)
    t, s = design.pairs.repeat_interleave(len(design.cells), 0).T
    i, j = design.cells.repeat(len(design.pairs), 1).T
    counts = task.histogram(design.tokens)
    rows = torch.arange(len(t))
    assert (design.tokens[rows, design.at] == t).all()
    assert (counts[rows, design.at] == i).all()
    assert ((design.tokens == s[:, None]).sum(1) == j).all()
    fillers = (design.tokens != t[:, None]) & (design.tokens != s[:, None])
    assert (counts[fillers] == 1).all()
    assert (design.pairs[:, 0] != design.pairs[:, 1]).all()
    assert len(design.pairs.unique(dim=0)) == len(design.pairs) == min(n_pairs, T * (T - 1))
    uses = torch.bincount(design.pairs[:, 0], minlength=T)
    assert uses.max() - uses.min() <= 1
    changed = design.swapped != design.tokens
    assert (changed.sum(1) == 1).all()
    assert (design.swapped[rows, design.at] == s).all()


def test_the_map_has_rows_for_t_and_columns_for_s():
    result = cue_conflict(construct("ic-lin", T=8, L=5))
    assert result.map.shape == (4, 4)
    assert result.map[0].tolist() == [2, 3, 4, 5]
    assert result.map[3, 1:].isnan().all()
    assert len(result.rows()) == len(result.cells)


def test_refuses_what_has_no_conflict_and_unknown_blocks():
    with pytest.raises(NotApplicable, match="L=2"):
        cue_conflict(small_model("dot", L=2))
    with pytest.raises(ValueError, match=r"layer must lie in 0\.\.0"):
        cue_conflict(small_model("dot"), layer=1)
    with pytest.raises(ValueError, match="n_pairs must be at least 1, got 0"):
        cue_conflict(small_model("dot"), n_pairs=0)
