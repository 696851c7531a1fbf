"""An adapter gives the model's own answers, and refuses hook points that are not what the measures take them for."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from counting_interp.models import Adapter, task
from counting_interp.models.protocol import CountingModel
from counting_interp.util.errors import InterpError
from tests.helpers import adapted, assert_close, small_block, small_model
from tests.plain import PLAIN_HOOKS, PLAIN_MIXER, PlainLayer, PlainModel

T, L = 7, 5
TOKENS = task.sample("paper", 6, T=T, L=L, generator=1)


def plain(n_layers: int = 1) -> PlainModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PlainModel(T + 1, d=6, p=8, classes=L + 2, n_layers=n_layers).double()


def plainly(module: nn.Module, **changes) -> Adapter:
    return Adapter(module, **{"T": T, "L": L, "mixer": PLAIN_MIXER, "hooks": PLAIN_HOOKS, **changes})


def test_both_kinds_are_counters():
    assert isinstance(small_model("bos"), CountingModel)
    assert isinstance(plainly(plain()), CountingModel)


def test_sizes_are_measured_and_answers_are_the_modules_own():
    module = plain(n_layers=2).train()
    model = plainly(module, prefix=1, encode=with_start, metadata={"seed": 3})
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


def test_hooks_are_taken_off_again():
    module = plain()
    model = plainly(module)
    with pytest.raises(ZeroDivisionError):
        model.run_with_hooks(TOKENS, fwd_hooks=[("blocks.0.mlp.hook_pre", lambda value, hook: 1 / 0)])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def wrong(**points: str) -> dict:
    return {"hooks": {**PLAIN_HOOKS, **{name.replace("__", "."): point for name, point in points.items()}}}


REFUSED = {
    "pattern not heard": (wrong(attn__hook_pattern="layers.{layer}.looked_at"), "when layers.0.looked_at is written"),
    "too short": ({"L": 2}, "3 <= L <= T, got L=2"),
    "too many tokens": ({"T": 20}, "fewer than T=20 tokens"),
    "unknown": ({"hooks": {"hook_mlp": "x"}}, "there is no point 'hook_mlp'"),
    "missing": (wrong(attn__hook_z="layers.{layer}.gatherd"), "it has layers.0.gathered"),
    "wrong values": (wrong(attn__hook_v="layers.{layer}.gathered"), "is not layers.0.pattern"),
    "joined heads": (wrong(attn__hook_v="layers.{layer}.v"), r"shapes must be \[row, position, head"),
    "no queries": (
        wrong(attn__hook_q="layers.{layer}.k"),
        "layers.0.k at a position does not change the mixer's output",
    ),
    "not reached": (wrong(attn__hook_z="layers.{layer}.unused"), "layers.0.unused for attn.hook_z is not reached"),
    "causal": ({"causal": True}, "some of its positions see what comes later"),
    "classes": ({"read": lambda logits: logits}, r"got \[row, 5, 7\]; say with read="),
    "prefix": ({"prefix": 2}, "prefix=2, but the sequence begins at position 0"),
    "encode": ({"encode": lambda sequences: sequences.flip(1)}, "token l \\+ 1 of a sequence at the position after"),
    "no such mixer": ({"mixer": "layers.{layer}.attn"}, r"no part 'layers.\{layer\}.attn'; the nearest are"),
    "an unreached mixer": ({"mixer": "layers.{layer}.unused"}, "is not reached"),
    "half of a mixer": ({"mixer": "layers.{layer}.values"}, "something else reaches a position"),
    "behind the residual": ({"mixer": "layers.{layer}"}, r"after the residual stream has joined.*layers\.0\.o$"),
    "failing": ({"encode": lambda sequences: sequences + 100}, r"it fails \(IndexError"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_do(case):
    changes, words = REFUSED[case]
    with pytest.raises(InterpError, match=words):
        plainly(plain(), **changes)


def test_all_that_is_wrong_is_said_at_once():
    hooks = {"hook_mlp": "x", "attn.hook_z": "layers.{layer}.gatherd", "mlp.hook_pre": "layers.{layer}.upp"}
    with pytest.raises(InterpError) as error:
        plainly(plain(), hooks=hooks, causal=True)
    assert str(error.value).count("\n- ") == 4
    assert all(word in str(error.value) for word in ("'hook_mlp'", "gatherd", "upp", "causal=True", "4 things"))


def test_names_are_checked_even_where_nothing_can_be_read():
    hooks = {"attn.hook_z": "layers.{layer}.gatherd"}
    with pytest.raises(InterpError) as error:
        plainly(plain(), hooks=hooks, mixer="layer.{layer}.o", encode=lambda sequences: sequences + 100)
    assert str(error.value).count("\n- ") == 3
    assert all(word in str(error.value) for word in ("gatherd", "layer.{layer}.o", "IndexError"))
    with pytest.raises(InterpError) as error:
        plainly(plain(), prefix=2, causal=True, mixer="layers.{layer}.values")
    assert all(word in str(error.value) for word in ("prefix=2", "causal=True", "something else reaches a position"))


def test_pre_activations_that_nobody_reads_are_refused():
    class AsideLayer(PlainLayer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.unused(self.up(x))
            return super().forward(x)

    module = plain()
    module.layers[0] = AsideLayer(6, 8, L + 2, skip=False).double()
    with pytest.raises(InterpError, match=r"answers do not change with layers\.0\.unused"):
        plainly(module, hooks={**PLAIN_HOOKS, "mlp.hook_pre": "layers.{layer}.unused"})


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_mixers_are_found_without_names(n_layers):
    model = Adapter(plain(n_layers), T=T, L=L)
    names = [point.name for point in model.mixers.points]
    assert names == [f"layers.{layer}.o" for layer in range(n_layers)]
    assert "pattern" in model.config.can
    assert model.config.p == 8


def test_writing_the_mixers_outputs_of_another_sequence_gives_its_answer():
    """Own, the first of the transplants, at one position that holds the same token in both sequences."""
    model = Adapter(plain(2), T=T, L=L)
    here, there = TOKENS[:3], TOKENS[3:6].clone()
    there[:, 2] = here[:, 2]
    names = [f"blocks.{layer}.hook_attn_out" for layer in range(2)]
    answer, cache = model.run_with_cache(there, names_filter=names)

    def own(name):
        def hook(value, hook):
            value = value.clone()
            value[:, 2] = cache[name][:, 2]
            return value

        return name, hook

    moved = model.run_with_hooks(here, fwd_hooks=[own(name) for name in names])
    assert_close(moved[:, 2], answer[:, 2], 1e-12)
    assert not torch.allclose(moved[:, 1], answer[:, 1])


class HandWritten(nn.Module):
    """Attention without a module for it, and nothing but functions in the block."""

    def __init__(self, *, fused: bool, skip: bool = True) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(T, 6), nn.Linear(6, L)
        self.qkv, self.fused, self.skip = nn.Linear(6, 18), fused, skip

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v) if self.fused else (q @ k.mT).softmax(-1) @ v
        return self.head(mixed.squeeze(1).sinh() + x * self.skip)


def seeded(**options) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return HandWritten(**options).double()


def test_attention_that_is_no_module_is_found_where_it_is_called():
    model = Adapter(seeded(fused=True), T=T, L=L)
    assert model.mixers.template == "scaled_dot_product_attention"
    assert "opened inside scaled_dot_product_attention, 1 head" in str(model)
    assert_close(model.run_with_hooks(TOKENS), model.module(TOKENS))
    name = "blocks.0.hook_attn_out"
    _, cache = model.run_with_cache(TOKENS, names_filter=[name])
    assert cache[name].shape == (len(TOKENS), L, 6)
    written = model.run_with_hooks(TOKENS, fwd_hooks=[(name, lambda value, hook: cache[name])])
    assert_close(written, model.module(TOKENS))


def test_what_holds_the_token_already_is_not_taken_for_a_mixer():
    with pytest.raises(InterpError, match=r"\(head\) already hold its own token; .* name it with mixer="):
        Adapter(seeded(fused=False), T=T, L=L)
    assert Adapter(seeded(fused=False), T=T, L=L, mixer="head").mixers.template == "head"  # who says so is believed


@pytest.mark.parametrize("fused", [True, False])
def test_patterns_are_opened_inside_functions(fused):
    module = seeded(fused=fused)
    model = Adapter(module, T=T, L=L, mixer=None if fused else "head")
    names = ["blocks.0.attn.hook_attn_scores", "blocks.0.attn.hook_pattern"]
    _, cache = model.run_with_cache(TOKENS, names_filter=names)
    q, k, _ = module.qkv(module.embed(TOKENS)).chunk(3, -1)
    assert_close(cache[names[1]][:, 0], (q @ k.mT * (6**-0.5 if fused else 1)).softmax(-1))
    tilted = model.run_with_hooks(TOKENS, fwd_hooks=[(names[0], lambda value, hook: value * 2)])
    assert not torch.allclose(tilted, module(TOKENS))
    assert_close(model.run_with_hooks(TOKENS, fwd_hooks=[(names[0], lambda value, hook: value)]), module(TOKENS))


def test_queries_are_opened_inside_fused_attention():
    """They act at their own position alone. What does not, is no query."""
    model = Adapter(seeded(fused=True), T=T, L=L)
    name, mixed = "blocks.0.attn.hook_q", "blocks.0.hook_attn_out"

    def asking_as_another_row(value: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.cat([value[:, :2], value[:, 2:3].roll(1, 0), value[:, 3:]], 1)

    written = []
    for hook in (lambda value, hook: value, asking_as_another_row):
        model.run_with_hooks(TOKENS, fwd_hooks=[(name, hook), (mixed, lambda value, hook: written.append(value))])
    changed = (written[0] - written[1]).abs().amax((0, 2)) > 1e-9  # of doubles
    assert changed.tolist() == [position == 2 for position in range(L)]
    assert name not in Adapter(seeded(fused=False), T=T, L=L, mixer="head").points
    assert name in plainly(plain(), **wrong(attn__hook_q="layers.{layer}.q")).points


def test_a_parallel_block_is_a_block_like_others():
    class ParallelLayer(PlainLayer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + self.down(self.up(x).relu())

    module = plain()
    module.layers[0] = ParallelLayer(6, 8, L + 2, skip=False).double()
    assert Adapter(module, T=T, L=L).mixers.template == "layers.0.o"


def test_answers_that_hear_nothing_of_others_are_refused():
    with pytest.raises(InterpError, match="no count to find"):
        Adapter(nn.Sequential(nn.Embedding(T, 6), nn.Linear(6, L)), T=T, L=L)


class Once(PlainModel):
    """As in nanoGPT: without targets it answers at the last position only."""

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None):
        logits = super().forward(tokens)
        return (logits[:, [-1]] if targets is None else logits), None


def test_targets_are_given_where_a_model_answers_everywhere_only_then():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Once(T + 1, d=6, p=8, classes=L + 2).double()
    model = Adapter(module, T=T, L=L)
    assert "with targets" in str(model)
    ids = model.reading.encode(TOKENS)[0]
    prefix = model.reading.prefix
    assert_close(model.run_with_hooks(TOKENS), PlainModel.forward(module, ids)[:, prefix : prefix + L, :L])


def test_a_token_in_front_and_one_behind_are_tried():
    """A count that is nothing unless both stand where they should."""

    class Framed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(T + 2, T + 2).requires_grad_(False)
            self.embed.weight.data = torch.eye(T + 2)
            self.mix = nn.Identity()

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            x = self.embed(ids)
            framed = (x[:, 0, T] * x[:, -1, T + 1])[:, None, None]
            count = self.mix((x @ x.mT).sum(-1, keepdim=True)) * framed
            return -((count - torch.arange(1, L + 1)) ** 2)

    model = Adapter(Framed(), T=T, L=L, mixer="mix")
    assert model.reading.accuracy == 1
    assert f"the token {T} in front and {T + 1} behind" in str(model)


def encoder(**options) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)


@pytest.mark.parametrize(
    ("parts", "mixer"),
    [
        ([encoder()], "1.self_attn"),
        ([encoder(), encoder(norm_first=True)], "{layer}.self_attn"),
        ([nn.Sequential(encoder(), encoder())], "1.{layer}.self_attn"),
        ([nn.TransformerEncoder(encoder(), 2), nn.LayerNorm(8)], "1.layers.{layer}.self_attn"),
    ],
    ids=["one", "two", "nested", "encoder"],
)
def test_numbers_of_a_sequential_are_not_taken_for_blocks(parts, mixer):
    """Its embedding and its head have numbers too."""
    module = nn.Sequential(nn.Embedding(T, 8), *parts, nn.Linear(8, L)).double()
    assert Adapter(module, T=T, L=L).mixers.template == mixer


class Counter(nn.Module):
    """Right by construction, with its logits wherever `wrap` puts them."""

    def __init__(self, wrap) -> None:
        super().__init__()
        self.embed, self.mix, self.wrap = nn.Embedding(T, T).requires_grad_(False), nn.Identity(), wrap
        self.embed.weight.data = torch.eye(T)

    def forward(self, ids: torch.Tensor):
        x = self.embed(ids)
        count = self.mix((x @ x.mT).sum(-1, keepdim=True))
        return self.wrap(x, -((count - torch.arange(1, L + 1)) ** 2))


@dataclasses.dataclass
class Said:
    hidden: torch.Tensor
    said: torch.Tensor


OUTPUTS = {
    "a head before it": (lambda x, logits: {"parity": x[..., :2], "count": logits}, "the output's 'count'"),
    "the stream before it": (lambda x, logits: (x, logits), "the output's 1"),
    "a dataclass": (lambda x, logits: Said(x, logits), "the output's 'said'"),
    "classes before positions": (lambda x, logits: logits.mT, "(row, width, position)"),
    "an answer to a start": (lambda x, logits: nn.functional.pad(logits, (0, 0, 1, 0)), "classes 0 to 4 of the output"),
    "other classes before": (lambda x, logits: nn.functional.pad(logits, (3, 0), value=-99), "are classes 3 to 7"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_logits_are_found_wherever_they_are(case):
    wrap, words = OUTPUTS[case]
    model = Adapter(Counter(wrap), T=T, L=L, mixer="mix")
    assert model.reading.accuracy == 1
    assert words in str(model)


def test_positions_may_come_last_in_what_a_mixer_writes():
    class Convolved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(T, 6), nn.Linear(6, L)
            self.conv = nn.Conv1d(6, 6, 2 * L - 1, padding="same")

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            return self.head((x + self.conv(x.mT).mT).tanh())

    torch.manual_seed(0)
    model, name = Adapter(Convolved().double(), T=T, L=L), "blocks.0.hook_attn_out"
    assert (model.mixers.template, model.mixers.points[0].layout) == ("conv", "row, width, position")
    here, there = TOKENS[:3], TOKENS[3:6].clone()
    there[:, 2] = here[:, 2]
    answer, cache = model.run_with_cache(there, names_filter=[name])
    moved = model.run_with_hooks(here, fwd_hooks=[(name, lambda value, hook: cache[name])])
    assert_close(moved[:, 2], answer[:, 2], 1e-12)


def test_a_start_that_the_model_adds_itself_is_a_position_in_prefix():
    class WithStart(PlainModel):
        def embed_tokens(self, tokens: torch.Tensor) -> torch.Tensor:
            return nn.functional.pad(tokens, (1, 0), value=T)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return super().forward(self.embed_tokens(tokens))[:, 1:]

    torch.manual_seed(0)
    module = WithStart(T + 1, d=6, p=8, classes=L).double()
    model = Adapter(module, T=T, L=L, prefix=1)
    assert (model.config.prefix, model.config.n_positions) == (1, L + 1)
    _, cache = model.run_with_cache(TOKENS, names_filter=["blocks.0.hook_attn_out"])
    assert cache["blocks.0.hook_attn_out"].shape[:2] == (len(TOKENS), L + 1)
    assert_close(model.run_with_hooks(TOKENS), module(TOKENS))


def test_a_start_token_need_not_be_the_next_id():
    """Seven of eight tokens are counted; the start token is the last id."""

    class Led(Counter):
        def forward(self, ids: torch.Tensor):
            return self.wrap(None, super().forward(ids) * (ids[:, :1] == T)[..., None])

    module = Led(lambda _, logits: logits)
    module.embed = nn.Embedding.from_pretrained(torch.eye(T + 1))
    model = Adapter(module, T=T - 1, L=L, mixer="mix")
    assert model.reading.accuracy == 1
    assert f"the start token {T} in front" in str(model)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_compiled_model_is_opened_as_it_was_written():
    module = plain()
    assert Adapter(torch.compile(module, backend="eager"), T=T, L=L).module is module


UNFIT = {
    "scripted": (lambda: torch.jit.trace(plain(), TOKENS), "needs the torch.nn.Module itself"),
    "half": (lambda: plain().bfloat16(), r"half precision .* pass net\.float\(\)"),
    "random": (lambda: Counter(lambda x, y: nn.functional.dropout(y)), "the same input differently each time"),
    "few classes": (lambda: Counter(lambda x, y: y[..., :3]), r"counts 1\.\.5, the output has 3; say with read="),
    "no logits": (lambda: Counter(lambda x, y: y.sum()), "no tensor .* say with read="),
}


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("case", UNFIT)
def test_what_cannot_be_opened_is_refused_in_a_sentence(case):
    make, words = UNFIT[case]
    with pytest.raises(InterpError, match=words):
        Adapter(make(), T=T, L=L, mixer="mix")


def test_causality_is_found():
    assert Adapter(small_model("dot+sftm+causal"), T=T, L=L).config.causal
    assert not Adapter(small_model("dot+sftm"), T=T, L=L).config.causal


def with_start(sequences: torch.Tensor) -> torch.Tensor:
    return nn.functional.pad(sequences, (1, 0), value=T)


def test_an_adapted_model_reads_letters_and_lists():
    adapter = plainly(plain())
    tokens = torch.tensor([1, 1, 2, 1, 3])
    assert torch.equal(adapter.predict("BBCBD"), adapter.predict(tokens))
    assert torch.equal(adapter.predict([1, 1, 2, 1, 3]), adapter.predict(tokens))
