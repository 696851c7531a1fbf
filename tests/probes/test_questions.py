"""Questions at the end: planted mechanisms come out as planted, and queries frozen at zero as an inventory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from benchmarks.questions import ask, train
from counting_interp.models import Adapter, task
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.catalogue import CATALOGUE
from counting_interp.probes.questions import list_or_question
from counting_interp.probes.transplants import transplants
from counting_interp.util.errors import InterpError
from tests.helpers import adapted, small_model
from tests.plain import PlainModel

T, L = 8, 5


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Identity()


class Planted(nn.Module):
    """Two blocks whose streams hold a one-hot token, a histogram and a count.

    `list-RC`: positions of the list count equal ones, the question takes the mean of what its equals found.
    `list-IC`: they gather a histogram and read their own token from it; the question looks that up.
    `question-RC`: the question counts its equals. `question-IC`: it gathers a histogram and reads its token from it.
    """

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.one = how, nn.Parameter(torch.ones(()))
        self.blocks: Sequence[Part] = nn.ModuleList([Part(), Part()])  # type: ignore[assignment]

    def forward(self, ids: Tensor) -> Tensor:
        token = nn.functional.one_hot(ids, T + 1).double() * self.one
        in_list = (torch.arange(ids.shape[1]) < L).double()
        equal = token @ token.mT * in_list  # [row, query, key]
        histogram = (token * in_list[:, None]).sum(1, keepdim=True).expand_as(token)
        place, who = self.how.split("-")
        counts, gathered = equal.sum(-1, keepdim=True), histogram
        first = torch.cat([gathered * (who == "IC"), counts * (who == "RC")], -1)
        at_list = first * in_list[:, None] * (place == "list")
        found = self.blocks[0].mix(at_list)
        known = found[..., -1] + (token * found[..., :-1]).sum(-1)  # each position reads its own token
        looked_up = (equal @ known[..., None]) / equal.sum(-1, keepdim=True).clamp_min(1)
        second = torch.cat([torch.zeros_like(gathered), looked_up], -1) if place == "list" else first
        heard = self.blocks[1].mix(second * (1 - in_list)[:, None])
        count = heard[..., -1] + (token * heard[..., :-1]).sum(-1)
        return -((count[..., None] - torch.arange(1, L + 1)) ** 2)


def planted(how: str) -> Adapter:
    return Adapter(Planted(how).double(), T=T, L=L, ask=ask, mixer="blocks.{layer}.mix")


@pytest.mark.parametrize("how", ["list-RC", "list-IC", "question-RC", "question-IC"])
def test_planted_mechanisms_come_out_as_planted(how):
    model = planted(how)
    assert model.reading.accuracy == 1
    result = list_or_question(model)
    place, label = how.split("-")
    assert (result.counts_in, result.decides.label) == (place, label)
    share = result.decides.shares.rc if label == "RC" else result.decides.shares.ic
    assert share.value == pytest.approx(1)
    words = "The question looks that up" if place == "list" else "The question counts by itself, in block 2"
    assert words in str(result)
    assert {row["positions"] for row in result.rows()} == {"question", "list"}


def test_answers_and_positions_are_those_of_the_question():
    model = planted("question-RC")
    lists = task.sample("paper", 50, T=T, L=L, generator=0)
    assert torch.equal(model.predict(lists), task.histogram(lists))
    assert torch.equal(model.truth(lists), task.histogram(lists))
    assert (model.reading.inside.tolist(), model.reading.outside.tolist()) == ([0, 1, 2, 3, 4], [5, 6])
    name = "blocks.1.hook_attn_out"
    _, heard = model.run_with_cache(lists, names_filter=[name])
    assert heard[name].shape == (50, L, 2 * (T + 2))  # two positions behind the list, side by side
    assert torch.equal(heard[name][:, -1, -1], task.histogram(lists)[:, -1].double())
    assert not heard[name][:, :-1].any()
    _, listed = planted("list-RC").lists.run_with_cache(lists, names_filter=["blocks.0.hook_attn_out"])
    assert torch.equal(listed["blocks.0.hook_attn_out"][..., -1], task.histogram(lists).double())


@torch.no_grad()
def test_a_question_may_stand_in_front_of_the_list():
    torch.manual_seed(0)
    module = PlainModel(T, d=6, p=8, classes=L).double()
    model = Adapter(module, T=T, L=L, ask=lambda lists, asked: torch.cat([asked[:, None], lists], 1), at=0)
    assert (model.reading.outside.tolist(), model.mixers.template) == ([0], "layers.0.o")
    lists = task.sample("paper", 5, T=T, L=L, generator=0)
    said = module(torch.cat([lists[:, -1:], lists], 1))[:, 0].argmax(-1) + 1
    assert torch.equal(model.predict(lists)[:, -1], said)


def test_an_answer_that_is_also_read_from_the_list_is_refused():
    class Pooled(PlainModel):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids).mean(1)

    torch.manual_seed(0)
    with pytest.raises(InterpError, match="not from the list's positions as well"):
        Adapter(Pooled(T + 1, d=6, p=8, classes=L).double(), T=T, L=L, ask=ask)


def test_others_are_refused_in_a_sentence():
    with pytest.raises(NotApplicable, match=r"need Adapter\(ask="):
        list_or_question(adapted(small_model("dot+sftm")))
    with pytest.raises(InterpError, match="answers at the positions of the list itself"):
        _ = adapted(small_model("dot+sftm")).lists
    refused = {
        "each token at one position": lambda lists, asked: torch.cat([lists, lists, asked[:, None]], 1),
        "outside of the list": lambda lists, asked: lists,
        "it fails on what ask= gives": lambda lists, asked: lists + asked,
    }
    for words, wrong in refused.items():
        with pytest.raises(InterpError, match=words):
            Adapter(Planted("question-RC").double(), T=T, L=L, ask=wrong, mixer="blocks.{layer}.mix")


@pytest.mark.parametrize("probe", CATALOGUE, ids=lambda probe: probe.name)
def test_probes_of_every_position_refuse_a_model_that_answers_once(probe):
    model = planted("question-RC")
    if probe.name == "transplants":
        assert probe.run(model).label == "RC"
    else:
        with pytest.raises(NotApplicable, match="answers once, to a question"):
            probe.run(model)


@pytest.mark.slow
@pytest.mark.parametrize("n_layers", [1, 2])
def test_queries_frozen_at_zero_are_an_inventory_of_the_question(n_layers):
    """P1: without queries a bystander hears what the token itself hears. In the first block, inventory is own."""
    model = Adapter(train(n_layers, compares=False), T=T, L=L, ask=ask)
    assert model.reading.accuracy > 0.95
    result = list_or_question(model)
    assert (result.counts_in, result.decides.label) == ("question", "IC")
    inventory = transplants(model, layer=0).agreements[0, :, 2]
    torch.testing.assert_close(inventory, torch.ones_like(inventory))
