"""An adapter gives the model's own answers, and refuses hook points that are not what the measures take them for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from counting_interp.models import Adapter, task
from counting_interp.models.counter import Counter
from counting_interp.util.errors import InterpError
from tests.helpers import adapted, assert_close, small_block, small_model
from tests.plain import PLAIN_HOOKS, PlainLayer, PlainModel

T, L = 7, 5
TOKENS = task.sample("paper", 6, T=T, L=L, generator=1)


def plain(n_layers: int = 1) -> PlainModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PlainModel(T + 1, d=6, p=8, classes=L + 2, n_layers=n_layers).double()


def plainly(module: nn.Module, **changes) -> Adapter:
    return Adapter(module, **{"T": T, "L": L, "hooks": PLAIN_HOOKS, **changes})


def test_both_kinds_are_counters():
    assert isinstance(small_model("bos"), Counter)
    assert isinstance(plainly(plain()), Counter)


def test_sizes_are_measured_and_answers_are_the_modules_own():
    module = plain(n_layers=2).train()
    model = plainly(module, front=1, encode=with_start, metadata={"seed": 3})
    config = model.config
    assert (config.d, config.p, config.n_layers, config.n_heads, config.n_positions) == (6, 8, 2, 1, L + 1)
    assert (config.name, config.classes, config.first_count, config.to_dict()["T"]) == ("PlainModel", L, 1, T)
    assert not module.training
    expected = module(with_start(TOKENS))[:, 1:, :L]
    assert_close(model.run_with_hooks(TOKENS), expected)
    assert torch.equal(model.predict(TOKENS[0]), expected[0].argmax(-1) + 1)
    assert torch.equal(model.truth(TOKENS), task.histogram(TOKENS))


@pytest.mark.parametrize(
    "name", ["dot+sftm", "lin", "bos+sftm+norm", "bos+sftm+values+2heads+norm+gelu+positions+causal"]
)
def test_a_hooked_model_needs_no_names(name):
    model = small_block(name, n_layers=2)
    own = adapted(model)
    assert own.config.n_heads == model.config.n_heads
    names = ["blocks.1.attn.hook_attn_scores", "blocks.0.mlp.hook_pre"]
    (logits, cache), (expected, reference) = (one.run_with_cache(TOKENS, names_filter=names) for one in (own, model))
    assert_close(logits, expected)
    for one in names:
        assert_close(cache[one], reference[one])


def test_scores_that_cannot_be_written_are_read_from_the_pattern():
    model, name = plainly(plain()), "blocks.0.attn.hook_attn_scores"
    _, cache = model.run_with_cache(TOKENS, names_filter=[name, "blocks.0.attn.hook_pattern"])
    assert_close(cache[name].exp(), cache["blocks.0.attn.hook_pattern"])
    seen: list[torch.Tensor] = []
    hooks = [
        (name, lambda scores, hook: scores * 2 + 5),
        ("blocks.0.attn.hook_pattern", lambda w, hook: seen.append(w)),
    ]
    model.run_with_hooks(TOKENS, fwd_hooks=hooks)
    assert_close(seen[0], (cache[name] * 2).softmax(-1))


def test_hooks_of_a_plain_module_are_taken_off_again():
    module = plain()
    model = plainly(module)
    with pytest.raises(ZeroDivisionError):
        model.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.mlp.hook_pre", lambda value, hook: 1 / 0)])
    assert not any(part._forward_hooks for part in module.modules())


REFUSED = {
    "pattern not heard": (
        {"hooks": {**PLAIN_HOOKS, "attn.hook_pattern": "layers.{layer}.looked_at"}},
        "stays as it is when layers.0.looked_at is written",
    ),
    "too short": ({"L": 2}, "3 <= L <= T, got L=2"),
    "unknown": ({"hooks": {"hook_mlp": "x"}}, "no hook point 'hook_mlp' to rename"),
    "missing": ({"hooks": {**PLAIN_HOOKS, "attn.hook_z": "layers.{layer}.gatherd"}}, "it has layers.0.gathered"),
    "wrong values": ({"hooks": {**PLAIN_HOOKS, "attn.hook_v": "layers.{layer}.gathered"}}, "is not layers.0.pattern"),
    "joined heads": ({"hooks": {**PLAIN_HOOKS, "attn.hook_v": "layers.{layer}.v"}}, r"shapes must be \[row, pos, head"),
    "not heard": ({"hooks": {**PLAIN_HOOKS, "hook_resid_mid": "layers.{layer}.unused"}}, "does not replace"),
    "not reached": ({"hooks": {**PLAIN_HOOKS, "attn.hook_z": "layers.{layer}.unused"}}, "was not reached"),
    "causal": ({"causal": True}, "some of its places see what comes later"),
    "classes": ({"read": lambda logits: logits}, r"got \[1, 5, 7\]; say with read="),
    "front": ({"front": 1}, r"got \[1, 4, 5\]"),
    "encode": ({"encode": lambda sequences: sequences.flip(1)}, "place front"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(case):
    changes, words = REFUSED[case]
    with pytest.raises(InterpError, match=words):
        plainly(plain(), **changes)


def test_pre_activations_that_nobody_reads_are_refused():
    class AsideLayer(PlainLayer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.unused(self.up(x))
            return super().forward(x)

    module = plain()
    module.layers[0] = AsideLayer(6, 8, L + 2, skip=False).double()
    with pytest.raises(InterpError, match=r"answers do not change with layers\.0\.unused"):
        plainly(module, hooks={**PLAIN_HOOKS, "mlp.hook_pre": "layers.{layer}.unused"})


def test_a_parallel_block_has_no_self_path_to_swap():
    """Its feed-forward layer reads what attention reads: nothing that attention writes reaches it."""

    class ParallelLayer(PlainLayer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + self.down(self.up(x).relu())

    module = plain()
    module.layers[0] = ParallelLayer(6, 8, L + 2, skip=False).double()
    with pytest.raises(InterpError, match="does not replace"):
        plainly(module)


def test_a_causal_model_must_be_called_one():
    with pytest.raises(InterpError, match="say causal=True"):
        Adapter(small_model("dot+sftm+causal"), T=T, L=L)


def with_start(sequences: torch.Tensor) -> torch.Tensor:
    return nn.functional.pad(sequences, (1, 0), value=T)
