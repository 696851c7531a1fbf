"""Overlaps of tables whose geometry is known: orthonormal, tagged, equiangular, and all the same."""

from __future__ import annotations

import pytest
import torch

from counting_interp.probes.overlap import histogram, overlap, overlap_of
from tests.helpers import assert_close, small_model
from tests.probes.planted import built, other_basis


def icosahedron() -> torch.Tensor:
    """Six lines through opposite corners: equiangular, coherence 1/sqrt 5 = the Welch bound of 6 vectors in R^3."""
    golden = (1 + 5**0.5) / 2
    corners = [(0, 1, golden), (0, 1, -golden), (1, golden, 0), (1, -golden, 0), (golden, 0, 1), (-golden, 0, 1)]
    return torch.tensor(corners, dtype=torch.float64)


def test_orthonormal_tokens():
    result = overlap(built("ic-lin", T=12, L=6))
    assert_close(result.values("same"), torch.ones(12))
    assert_close(result.values("different"), torch.zeros(132))
    assert len(result.values("bos")) == 0
    assert (result.coherence, result.welch) == (0.0, 0.0)
    assert_close([result.effective_dimension, result.raw_dimension], [12.0, 12.0])


def test_the_sum_of_all_tokens_as_bos():
    result = overlap(built("rc-bos", T=12, L=6))
    assert_close(result.values("bos"), torch.ones(12))
    assert_close(result.values("bos", cosine=True), torch.full((12,), 12**-0.5), 1e-7)
    assert_close(result.values("bos_bos"), [12.0])
    assert {"median_bos_raw", "median_bos_bos_raw"} <= set(result.summary)


def test_tagged_tokens():
    result = overlap(built("rc-dot", T=12, L=6))
    assert_close(result.values("same"), torch.full((12,), 15.0))
    assert_close(result.values("different"), torch.full((132,), 14.0))
    assert_close(result.coherence, 14 / 15)
    assert result.effective_dimension < 1.2


def test_an_equiangular_frame_meets_the_welch_bound():
    result = overlap_of(icosahedron(), 6)
    assert_close([result.coherence, result.welch], [5**-0.5, 5**-0.5])
    assert_close(result.effective_dimension, 3.0)  # a tight frame fills its space


def test_random_embeddings_do_not_meet_it():
    result = overlap(small_model("dot", T=7, d=4))
    assert result.coherence > result.welch + 0.1


def test_tokens_that_are_all_the_same_have_no_room():
    result = overlap_of(torch.ones(5, 3), 5)
    assert_close([result.coherence, result.effective_dimension], [1.0, 1.0])
    assert overlap_of(torch.zeros(5, 3), 5).effective_dimension == 0.0


def test_rotations_leave_everything_and_scaling_leaves_cosines():
    model = small_model("bos")
    mine, turned = overlap(model), overlap(other_basis(model, rotation=True))
    assert_close(turned.gram, mine.gram)
    longer = overlap_of(3 * model.W_E.detach(), 7)
    assert_close(longer.cosine, mine.cosine)
    assert_close(longer.gram, 9 * mine.gram)


def test_other_changes_of_basis_do_change_it():
    """As its docstring says: the function stays, the overlaps do not."""
    model = built("ic-dot", T=12, L=6)
    other = other_basis(model)
    tokens = torch.arange(12)[:6]
    assert torch.equal(model.predict(tokens), other.predict(tokens))
    assert overlap(other).coherence > 0.1


def test_histograms_are_densities_over_all_values():
    result = overlap(small_model("bos+sftm"))
    bars = result.histograms()
    assert [b.series for b in bars] == ["same", "different", "bos"]
    assert [len(b.density) for b in bars] == [6, 100, 10]
    for b in bars:
        assert_close((b.density * b.edges.diff()).sum(), 1.0)
        assert_close([b.edges[0], b.edges[-1]], [result.values(b.series).min(), result.values(b.series).max()])
    two = histogram("same", torch.tensor([0.0, 1.0, 1.0, 4.0]).double(), 2)
    assert two.edges.tolist() == [0.0, 2.0, 4.0]
    assert two.density.tolist() == [3 / 8, 1 / 8]


def test_equal_values_make_one_bar():
    bars = histogram("same", torch.full((4,), 2.0).double(), 6)
    assert bars.edges.tolist() == [1.5, 2.5]
    assert bars.density.tolist() == [1.0]


def test_an_unknown_series_is_named():
    with pytest.raises(ValueError, match="got 'dollar'"):
        overlap(small_model("bos")).values("dollar")


def test_similar_tokens_stand_together() -> None:
    """Two groups that point in opposite directions, mixed up: the order separates them, and `$` stays last."""
    generator = torch.Generator().manual_seed(0)
    group = torch.tensor([0, 1, 0, 1, 1, 0])
    table = torch.where(group[:, None] == 0, 1.0, -1.0) + 0.1 * torch.randn(6, 5, generator=generator)
    order = overlap_of(torch.cat([table, torch.ones(1, 5)]), T=6).order
    assert sorted(order) == list(range(7))
    assert order[-1] == 6
    assert group[order[:6]].diff().abs().sum() == 1
