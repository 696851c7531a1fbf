"""What the interventions do on every sequence: constructions are labelled by proof, and proofs agree with running."""

from __future__ import annotations

import pytest
import torch

from counting_interp.interp.proof.cells import CountCell
from counting_interp.interp.proof.interventions import flattened_view, prove_interventions, swapped_view
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.models.constructions import construct
from counting_interp.probes.cue_conflict import interventions
from tests.helpers import small_model

RC = ("rc-bos", "rc-bos-tagged", "rc-bos+sftm", "rc-dot", "rc-dot-compact", "rc-bos-coherence")
IC = ("ic-lin", "ic-lin+sftm", "ic-dot", "ic-bos", "ic-bos+sftm", "ic-lin-coherence", "ic-lin+sftm-compact")
FRAMED_SOFTMAX = ("rc-bos+sftm-binary", "rc-bos+sftm-arc", "rc-bos+sftm-sign", "rc-bos+sftm-circle")
GATED = ("ic-dot-compact", "ic-bos-coherence")


@pytest.mark.parametrize("name", RC)
def test_relation_based_constructions_by_proof(name):
    proved = prove_interventions(construct(name, T=6, L=4), n_pairs=8)
    assert (proved.says_t, proved.says_s, proved.says_count, proved.says_nothing) == (1, 0, 0, 1)
    assert "100% say the count of t" in str(proved)


@pytest.mark.parametrize("name", IC)
def test_inventory_based_constructions_by_proof(name):
    proved = prove_interventions(construct(name, T=6, L=4), n_pairs=8)
    assert (proved.says_t, proved.says_s, proved.says_count, proved.says_nothing) == (0, 1, 1, 0)


@pytest.mark.parametrize("name", FRAMED_SOFTMAX)
def test_framed_tokens_with_softmax_are_proved_by_the_swap_alone(name):
    """Strangers weigh the others differently from t there, so nothing is claimed about the flattened position."""
    proved = prove_interventions(construct(name, T=8, L=4), n_pairs=8)
    assert (proved.says_t, proved.says_s, proved.says_count) == (1, 0, 0)


@pytest.mark.parametrize("name", GATED)
def test_gated_constructions_follow_neither_by_proof(name):
    """And without attention's comparison most of their pairs say the same whatever the count is."""
    proved = prove_interventions(construct(name, T=8, L=4), n_pairs=16)
    assert (proved.says_t, proved.says_s, proved.says_count) == (0, 0, 0)
    assert proved.says_nothing > 0.5


def test_a_hybrid_is_neither_by_proof():
    proved = prove_interventions(construct("hybrid-dot", T=6, L=4), n_pairs=8)
    assert (proved.says_t, proved.says_s, proved.says_count, proved.says_nothing) == (0, 0, 0, 0)


@pytest.mark.parametrize("variant", ["dot", "bos", "dot+sftm", "bos+sftm"])
def test_the_swapped_view_says_what_the_hooks_say(variant):
    """An untrained model: every answer of the hooked swap is that of the sums over positions."""
    model = small_model(variant, T=6, L=4)
    conflict, _ = interventions(model, n_pairs=6)
    reduction = Reduction(model)
    for (t, s), answers in zip(conflict.pairs.tolist(), conflict.predicted, strict=True):
        view = swapped_view(reduction, t, s, None)
        for (i, j), answer in zip(conflict.cells.tolist(), answers.tolist(), strict=True):
            if i + j == 4:  # no fillers
                cell = CountCell(reduction, view, i)
                cell.right = reduction.class_of(answer)
                assert cell.margins(torch.full((1, j), s).numpy())[0] > 0


@pytest.mark.parametrize("variant", ["dot", "bos"])
def test_the_flattened_view_says_what_the_hooks_say(variant):
    from counting_interp.probes.designs import conflict_design

    model = small_model(variant, T=6, L=4)
    design = conflict_design(model.config, n_pairs=6)
    _, flattening = interventions(model, n_pairs=6)
    reduction = Reduction(model)
    rows = torch.arange(len(design.tokens))
    asked = design.absent[rows, design.at].reshape(flattening.predicted.shape)
    for (t, s), strangers, answers in zip(flattening.pairs.tolist(), asked, flattening.predicted, strict=True):
        for (i, j), u, answer in zip(flattening.cells.tolist(), strangers.tolist(), answers.tolist(), strict=True):
            if i + j == 4:
                view = flattened_view(reduction, t, u)
                assert view is not None
                cell = CountCell(reduction, view, i)
                cell.right = reduction.class_of(answer)
                assert cell.margins(torch.full((1, j), s).numpy())[0] > 0
