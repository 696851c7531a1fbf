"""Unedited models of every kind: one line each, the model's own answers, and left as they were."""

from __future__ import annotations

import csv

import pytest
import torch

from benchmarks.own_models import KINDS, TABLE, L, T, train, with_start
from counting_interp.interp.verdict import classify
from counting_interp.models import Adapter, task
from counting_interp.probes.transplants import transplants

COLUMNS = ("model", "RC", "IC", "gated")
TOKENS = task.sample("paper", 40, T=T, L=L, generator=9)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_one_line_from_a_trained_model_to_shares(name):
    kind = KINDS[name]
    net = train(kind)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    hooks = n_hooks(net)
    model = Adapter(net, T=T, L=L)
    assert model.reading.accuracy > 0.95, str(model)
    assert (model.config.causal, model.config.prefix, model.config.n_layers) == (kind.causal, 1, 1)
    with torch.no_grad():
        ids = with_start(TOKENS)
        output = net(ids.T if kind.positions_first else ids)
        logits = output if isinstance(output, torch.Tensor) else output.logits
        expected = (logits.transpose(0, 1) if kind.positions_first else logits)[:, 1:, :L]
    torch.testing.assert_close(model.run_with_hooks(TOKENS), expected, rtol=1e-4, atol=1e-4)
    result = transplants(model)
    assert result.moved.max() > 0.9  # own, in the one block there is
    assert result.shares.rc.value + result.shares.ic.value + result.shares.gated.value == pytest.approx(1)
    assert n_hooks(net) == hooks
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.backends.mha.get_fastpath_enabled()


def n_hooks(net: torch.nn.Module) -> int:
    """A TransformerBridge has some of its own."""
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in net.modules())


@pytest.mark.slow
def test_rotary_positions_without_a_start_token_cannot_count():
    net = train(KINDS["Qwen 3"], start=False)
    with pytest.warns(UserWarning, match="cannot tell A from A A A"):
        model = Adapter(net, T=T, L=L)
    assert model.reading.accuracy < 0.75
    assert "Train it with a start token" in str(model)
    verdict = classify(model, quick=True)
    assert verdict.mechanism == "unsolved"
    assert "cannot tell A from A A A" in verdict.reason


def test_the_table_has_every_kind():
    rows = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
    assert [row["model"] for row in rows] == list(KINDS)
    assert all(float(row["accuracy"]) > 0.95 and float(row["verdict_s"]) < 3 for row in rows)
    document = (TABLE.parents[1] / "your-own-model.md").read_text(encoding="utf-8")
    for row in rows:
        assert f"| {' | '.join(row[name] for name in COLUMNS)} |" in document
    seconds = [row["verdict_s"] for row in rows]
    assert f"took {min(seconds)} to {max(seconds)} s of one core" in document
