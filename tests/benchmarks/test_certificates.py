"""A small campaign: what is certified after random rescalings is right when it is run."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from benchmarks.certificates import by_numpy, candidates, one_chunk, totals, wrong_runs
from benchmarks.rescaling import CHANGES
from counting_interp.models import CountingTransformer, task
from counting_interp.models.constructions import construct
from tests.interp.proof.examples import all_sequences


def test_what_is_certified_is_right_when_run():
    models = list(itertools.islice(candidates(10_000, []), 60))
    counts, wrong = one_chunk(iter(models), lambda certified: list(wrong_runs(certified)))
    assert not wrong
    total = sum((count for count in counts.values()), start=type(next(iter(counts.values())))())
    assert total["candidates"] == 60
    assert 5 < total["certified"] < 60  # on both sides of what can be proved
    assert total["checked"] > 0
    assert total["refused_by_checker"] == 0


def test_a_wrong_model_would_be_seen():
    model = construct("rc-bos", T=4, L=3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["blocks.0.mlp.b_out"][1] += 100
    found = list(wrong_runs([model, CountingTransformer(model.config, state)]))
    assert {(index, how) for index, how in found} == {(1, "as it is"), (1, "flushed"), (1, "numpy")}


def test_every_change_keeps_the_real_function():
    tokens = all_sequences(4, 3)
    rng = np.random.default_rng(0)
    for name in ("rc-bos+sftm", "ic-dot", "ic-lin", "rc-bos", "ic-lin+sftm"):
        model = construct(name, T=4, L=3, dtype="float64")
        for change in CHANGES:
            state = {key: value.clone() for key, value in model.state_dict().items()}
            changed = CountingTransformer(*change(model.config, state, rng, 3.0))
            assert bool((changed.predict(tokens) == task.histogram(tokens)).all())
            with torch.no_grad():
                assert bool((torch.from_numpy(by_numpy(changed, tokens.numpy(), 0)) == changed.predict(tokens)).all())


def test_totals_add_up():
    row = dict.fromkeys(("candidates", "certified", "in_range", "runs", "wrong", "checked", "refused_by_checker"), 2)
    found = totals([{"chunk": 0, "source": "zoo", **row}, {"chunk": 1, "source": "trained", **row}])
    assert [entry["source"] for entry in found] == ["trained", "zoo", "all"]
    assert found[-1]["certified"] == 4
