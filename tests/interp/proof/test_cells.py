"""The reduction, the corners and the kernels, each against running or enumerating everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from counting_interp.interp.proof.branch import OUT_OF_BUDGET, PROVED, VIOLATED
from counting_interp.interp.proof.cells import CountCell, cases, enumerate_cell, extremes, multisets, views
from counting_interp.interp.proof.reduction import Reduction
from counting_interp.models import task
from counting_interp.models.config import VARIANTS, CountingConfig
from tests.helpers import assert_close, small_model
from tests.interp.proof.examples import fitted_model


def everything(cell: CountCell) -> np.ndarray:
    """All fillings of the other positions of a cell. [filling, others]"""
    T, t = cell.reduction.config.T, cell.view.token
    if cell.view.weights is None:
        rows = multisets(T - 1, cell.free)
        return rows + (rows >= t)
    rows = np.array(list(product(range(T), repeat=len(cell.weights))))
    return rows[(rows == t).sum(1) == cell.equal]


def all_cells(model) -> list[CountCell]:
    reduction = Reduction(model)
    return [CountCell(reduction, view, count) for view in views(reduction) for count in range(1, model.config.L + 1)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_filled_cell_is_a_sequence_and_has_the_margin_of_the_running_model(variant):
    model = small_model(variant, T=5, L=4, n_classes=5)
    for cell in all_cells(model):
        others = cell.random(3, np.random.default_rng(cell.count))
        for row, margin in zip(others, cell.margins(others), strict=True):
            tokens, position = cell.sequence(row)
            assert tokens.count(cell.view.token) == cell.count
            assert tokens[position] == cell.view.token
            with torch.no_grad():
                logits = model(torch.tensor(tokens))[position]
            rest = torch.cat([logits[: cell.count], logits[cell.count + 1 :]])
            assert_close(margin, logits[cell.count] - rest.max())
        assert task.histogram(torch.tensor(tokens))[position] == cell.count


@pytest.mark.parametrize("variant", VARIANTS)
def test_ranges_of_pre_activations_are_exact(variant):
    model = small_model(variant, T=4, L=4)
    for view in views(Reduction(model)):
        low, high = extremes(view, 4)
        for count in range(1, 5):
            cell = CountCell(Reduction(model), view, count)
            sums = cell.sums(everything(cell))
            values = sums[:, :-1] / sums[:, -1:]
            assert_close(low[count - 1], values.min(0))
            assert_close(high[count - 1], values.max(0))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("budget", [1, 5, 100_000])
def test_branch_and_bound_is_sound_at_every_budget_and_complete_without_one(variant, budget):
    model = fitted_model(variant, T=4, L=4, d=5, p=12, seed=3)
    verdicts = set()
    for cell in all_cells(model)[::3]:
        every = everything(cell)
        sums = cell.sums(every)
        logits = np.maximum(sums[:, :-1], 0) @ model.blocks[0].mlp.W_out.detach().numpy()
        logits = logits / sums[:, -1:] + model.blocks[0].mlp.b_out.detach().numpy()
        for challenger in {cell.right - 1, cell.right + 1} & set(range(4)):
            gaps = logits[:, cell.right] - logits[:, challenger]
            verdict, nodes, bound, others = cell.prove(challenger, 0.0, budget)
            verdicts.add(verdict)
            if verdict == PROVED:
                assert 0 < bound <= gaps.min() + 1e-9
            elif verdict == VIOLATED:
                assert gaps.min() <= 1e-9
                assert (np.sort(others) == cell.view.token).sum() == cell.equal
                assert cell.margins(others[None])[0] <= 1e-9
            else:
                assert nodes == budget < 100_000
    assert OUT_OF_BUDGET not in verdicts or budget < 100_000
    assert {PROVED, VIOLATED} <= verdicts or budget < 100_000


@pytest.mark.parametrize("variant", VARIANTS)
def test_search_goes_downhill_and_mostly_finds_the_worst(variant):
    rng = np.random.default_rng(0)
    found = []
    for cell in all_cells(small_model(variant, T=4, L=4))[::2]:
        if not len(cell.weights):
            continue
        starts = np.concatenate([cell.corners(), cell.random(3, rng)])
        reached = cell.search(starts)
        assert (cell.margins(reached) <= cell.margins(starts) + 1e-9).all()
        margin = cell.margins(reached).min()
        worst = cell.margins(everything(cell)).min()
        assert margin >= worst - 1e-9
        found.append(margin <= worst + 1e-9)
    assert np.mean(found) > 0.9


def test_enumeration_covers_every_multiset_once():
    assert cases(CountingConfig.parse("dot", T=8, L=8, d=1, p=1), 8) == 27_456
    model = small_model("bos", T=5, L=4)
    for cell in all_cells(model):
        margin, others = enumerate_cell(cell)
        assert_close(margin, cell.margins(everything(cell)).min())
        assert_close(margin, cell.margins(others[None])[0])
