"""The published numbers as read, and models beside them."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.published import attention_matrix, bos_sweeps, overlap_mean, published, spectra
from tests.helpers import assert_close, small_model
from tests.probes.planted import built


def test_the_numbers_are_those_of_the_figures():
    labels, matrix = attention_matrix("bos+sftm")
    assert "".join(labels) == "$BBCBBBDEEE"
    assert_close(matrix[1:, 0][[0, 2, 6, 7]], [0.46, 0.33, 0.33, 0.38], 1e-6)
    assert (matrix.sum(1) - 1).abs().max() < 0.05  # rounded to percent
    sheet = bos_sweeps()
    assert sorted(sheet) == [(i, j) for i in "BCDE" for j in "BCDE"]
    assert all((row.diff() >= 0).all() and (row[0], row[-1]) == (1, 9) for row in sheet.values())
    assert list(bos_sweeps("BOS_figure")) == [("B", "A")]
    assert_close([overlap_mean(s) for s in ("same", "different", "bos")], [40.9, 14.0, -24.6], 3e-3)
    assert overlap_mean("bos_bos_value") == 89.745


@pytest.mark.parametrize(
    ("variant", "s0", "s1", "s30", "drop"),
    [
        ("lin", 11.6, 10.6, 5.9, 1.36),
        ("lin+sftm", 25.2, 14.2, 9.5, 3.67),
        ("dot+sftm", 22.6, 15.9, 5.7, 1.96),
        ("dot", 8.2, 3.8, 1.6, 1.08),
        ("bos", 10.0, 5.6, 0.6, 1.03),
        ("bos+sftm", 34.9, 22.0, 0.7, 1.04),
    ],
)
def test_medians_of_the_published_spectra(variant, s0, s1, s30, drop):
    medians = {name: values["median"] for name, values in spectra(variant).items()}
    assert_close([medians[name] for name in ("s0", "s1", "s30")], [s0, s1, s30], 0.05)
    assert_close(medians["drop_at_T"], drop, 5e-3)


def test_the_hand_built_model_agrees_with_the_sweep_and_differs_in_how_it_attends():
    """The construction looks at equal tokens where the trained model looks away; both leave the count to `$`, whose
    share falls with the count in the one and rises in the other."""
    rows = {row.quantity: row for row in published(built("rc-bos+sftm")).comparisons}
    assert rows["sweeps_that_never_turn_back"].agrees
    assert rows["boundary_shift_in_grid_points"].ours == 0.0
    assert rows["boundary_shift_in_grid_points"].published == 1
    assert rows["counts_reached"].published == 9
    assert not rows["bos_share_at_5"].agrees
    assert_close(rows["bos_share_at_5"].ours, 0.127561, 1e-6)
    assert not rows["attention_equal"].agrees


def test_an_inventory_agrees_with_the_inventories():
    assert {row.quantity: row.agrees for row in published(built("ic-dot+sftm")).comparisons}["attention_equal"]


def test_an_untrained_model_does_not_agree():
    model = CountingTransformer(CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=45))
    rows = {row.quantity: row for row in published(model).comparisons}
    assert not rows["counts_reached"].agrees
    assert not rows["boundary_shift_in_grid_points"].agrees
    assert not rows["s0"].agrees  # the published ones have grown to 21 and more


def test_says_where_nothing_was_published():
    with pytest.raises(NotApplicable, match="T=7, L=5 and n_layers=2"):
        published(small_model("dot", 2))
    with pytest.raises(NotApplicable, match="d and p from 32 on; here d=32, p=1"):
        published(built("rc-dot"))


def test_an_unknown_matrix_is_named():
    with pytest.raises(ValueError, match="got 'dot'"):
        attention_matrix("dot")
    assert torch.equal(*(attention_matrix("lin+sftm")[1] for _ in range(2)))


def test_the_bundled_model_of_figure_3_agrees_in_everything():
    """Shares of `$`, order of overlaps, and sweeps that no pair of tokens moves."""
    result = published(CountingTransformer.load("bos+sftm-d45-p2"))
    assert len(result.comparisons) == 12
    assert [row.quantity for row in result.comparisons if not row.agrees] == []


def test_the_bundled_lin_sftm_model_mixes_as_the_text_says():
    rows = {row.quantity: row for row in published(CountingTransformer.load("lin+sftm-d64-p64")).comparisons}
    assert rows["attention_on_diagonal"].agrees
    assert_close([rows["attention_on_diagonal"].ours, rows["attention_other"].ours], [0.16, 0.09], 0.02)
