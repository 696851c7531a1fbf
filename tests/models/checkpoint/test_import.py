"""Files of other people: the published layout, bare state_dicts, wrappers, and what shapes do not say."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import pytest
import safetensors.torch
import torch

from counting_interp.data import zoo_names
from counting_interp.models import CountingTransformer, task
from counting_interp.models.checkpoint import load, read
from counting_interp.models.config import VARIANTS, CountingConfig
from counting_interp.models.training import Recipe, train
from counting_interp.util.errors import CheckpointError
from tests.helpers import small_block, small_model
from tests.models.checkpoint.counting import L, T, counting_model, published_layout
from tests.models.checkpoint.craft import optimizer_state

SHORT = Recipe(epochs=1, sequences=16_000, batch_size=64, lr=1e-2, schedule="cosine", validation=500)
EVERY_SEQUENCE = torch.cartesian_prod(*[torch.arange(3)] * L)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_models_used_here_count(variant):
    model = counting_model(variant)
    for sampler in task.SAMPLERS:
        assert model.accuracy(n=500, sampler=sampler) == 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("positions", [True, False])
def test_a_published_file_is_recognised_without_flags(tmp_path, variant, positions):
    model = counting_model(variant)
    torch.save(OrderedDict(published_layout(model, positions=positions)), tmp_path / "transformer.pt")
    checkpoint = read(tmp_path / "transformer.pt")
    loaded = checkpoint.model
    assert checkpoint.hash_holds is None
    assert loaded.config.replace(seed=0) == model.config.replace(seed=0)
    assert torch.equal(loaded(EVERY_SEQUENCE), model(EVERY_SEQUENCE))
    assumed = loaded.metadata["assumed"]
    assert assumed[0].startswith(f"{variant} (T={T}, L={L}, 1 layer), because so it is correct at > 99.9 %")
    assert assumed[0].endswith("with more tokens or in longer sequences" if variant == "dot" else "; sure")
    assert any("positional table" in note for note in assumed) == positions
    assert loaded.metadata["layout"] == "published"


@pytest.mark.parametrize("variant", VARIANTS)
def test_flags_settle_it_without_trying(tmp_path, variant, monkeypatch):
    """Also for weights that count nothing, where trying could not tell."""
    model = small_model(variant, n_classes=6, dtype="float32")
    torch.save(published_layout(model), tmp_path / "t.pt")
    monkeypatch.setattr("counting_interp.models.checkpoint.bare._trial", None)
    loaded = load(tmp_path / "t.pt", mixing=model.config.mixing, softmax=model.config.softmax)
    assert loaded.config == model.config.replace(seed=0)
    tokens = task.sample("paper", 50, T=7, L=5, generator=0)
    assert torch.equal(loaded(tokens), model(tokens))
    assert any(note.startswith("as given: mixing=") for note in loaded.metadata["assumed"])


@pytest.mark.parametrize(
    "name", ["dot+sftm+values+2heads", "lin+3heads", "bos+norm+positions", "bos+sftm+values+2heads+norm+positions"]
)
def test_bare_files_of_other_blocks_say_what_they_have(tmp_path, name):
    model = small_block(name, n_layers=2, dtype="float32")
    torch.save(model.state_dict(), tmp_path / "t.pt")
    told = {
        "mixing": model.config.mixing,
        "softmax": model.config.softmax,
        "activation": "relu",
        "causal": False,
        "L": 5,
    }
    loaded = load(tmp_path / "t.pt", **told)
    assert loaded.config == model.config.replace(seed=0)
    tokens = task.sample("paper", 20, T=7, L=5, generator=0)
    assert torch.equal(loaded(tokens), model(tokens))


def test_gelu_and_causal_are_found_by_trying(tmp_path):
    """The answer of both is the number of occurrences so far, in a hidden unit where ReLU and GELU differ."""
    model = train(CountingConfig.parse("dot+sftm+values+gelu+positions+causal", T=5, L=3, d=16, p=16), SHORT).model()
    torch.save(model.state_dict(), tmp_path / "t.pt")
    loaded = load(tmp_path / "t.pt")
    assert loaded.config.name == "dot+sftm+values+gelu+positions+causal"
    assert loaded.metadata["assumed"][0].startswith("dot+sftm+values+gelu+positions+causal (T=5, L=3, 1 layer)")


def test_a_model_that_does_not_count_is_a_guess_and_says_so(tmp_path):
    torch.save(published_layout(small_model("dot", n_classes=6)), tmp_path / "t.pt")
    assert "no more than a guess" in load(tmp_path / "t.pt").metadata["assumed"][0]


def test_a_model_that_never_saw_the_count_L_is_recognised_by_its_own_sampler(tmp_path):
    model = counting_model("bos+sftm")
    with torch.no_grad():
        model.blocks[0].mlp.b_out[L] = -6e4  # never answers L, as the published models
    torch.save(published_layout(model), tmp_path / "t.pt")
    loaded = load(tmp_path / "t.pt")
    assert loaded.config.name == "bos+sftm"
    assert "> 99.9 %" in loaded.metadata["assumed"][0]
    assert "published sampler" in loaded.metadata["assumed"][0]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_classes", [L, L + 1])
def test_a_bare_state_dict_of_ours_is_recognised(tmp_path, variant, n_classes):
    model = counting_model(variant, n_classes)
    torch.save(model.state_dict(), tmp_path / "t.pt")
    safetensors.torch.save_file(model.state_dict(), tmp_path / "t.safetensors")
    for name in ("t.pt", "t.safetensors"):
        loaded = load(tmp_path / name)
        assert loaded.config == model.config
        assert torch.equal(loaded(EVERY_SEQUENCE), model(EVERY_SEQUENCE))


@pytest.mark.parametrize("name", zoo_names())
def test_every_trained_model_of_the_zoo_is_recognised_from_its_weights_alone(tmp_path, name):
    model = CountingTransformer.load(name)
    published = model.config.first_count == 0 and model.config.n_layers == 1
    torch.save(published_layout(model) if published else dict(model.state_dict()), tmp_path / "t.pt")
    assert load(tmp_path / "t.pt").config == model.config.replace(seed=0, frozen_embeddings=False)


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "model_state_dict", None])
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_orig_mod.module.", ""])
def test_wrappers_and_prefixes_are_taken_off(tmp_path, wrapper, prefix):
    model = counting_model("dot")
    state = {prefix + name: torch.nn.Parameter(w, False) for name, w in published_layout(model).items()}
    whole = {"epoch": 3, "optimizer": optimizer_state(), wrapper: state} if wrapper else state
    torch.save(whole, tmp_path / "t.pt")
    assert load(tmp_path / "t.pt").config.name == "dot"


@pytest.mark.parametrize(("dtype", "kept"), [("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64")])
def test_other_precisions_keep_their_values(tmp_path, dtype, kept):
    state = {name: w.to(getattr(torch, dtype)) for name, w in counting_model("dot").state_dict().items()}
    torch.save(state, tmp_path / "t.pt")
    loaded = load(tmp_path / "t.pt")
    assert loaded.config.dtype == kept
    assert all(torch.equal(loaded.state_dict()[name], w.to(getattr(torch, kept))) for name, w in state.items())
    assert any("widened" in note for note in loaded.metadata["assumed"]) == (kept != dtype)


def two_layer_file(path, variant="dot+sftm"):
    """As the authors' two-layer code writes it: a first block of noise, a second one that counts from embeddings."""
    one = counting_model(variant)
    state = published_layout(one)
    noise = torch.Generator().manual_seed(0)
    first = {
        "token_mixer.Q": torch.randn(one.config.d, one.config.d, generator=noise),
        "token_mixer.K": torch.randn(one.config.d, one.config.d, generator=noise),
        "fc1.weight": torch.randn(one.config.p, one.config.d, generator=noise),
        "fc1.bias": torch.randn(one.config.p, generator=noise),
        "fc2.weight": torch.randn(one.config.d, one.config.p, generator=noise),
        "fc2.bias": torch.randn(one.config.d, generator=noise),
    }
    second = {"token_mixer.": "token_mixer2.", "fc1.": "fc3.", "fc2.": "fc4."}
    renamed = {}
    for name, tensor in state.items():
        for old, new in second.items():
            name = name.replace(old, new)
        renamed[name] = tensor
    torch.save({**renamed, **first}, path)
    return one


def test_a_published_two_layer_file_is_the_one_layer_model_it_computes(tmp_path):
    one = two_layer_file(tmp_path / "t.pt")
    loaded = load(tmp_path / "t.pt")
    assert loaded.config == one.config
    assert torch.equal(loaded(EVERY_SEQUENCE), one(EVERY_SEQUENCE))
    assert any("never uses its first block" in note for note in loaded.metadata["assumed"])
    assert load(tmp_path / "t.pt", n_layers=2, mixing="dot", softmax=True).config.n_layers == 2


def test_assumptions_that_the_file_contradicts_are_refused(tmp_path):
    torch.save(published_layout(counting_model("dot")), tmp_path / "t.pt")
    with pytest.raises(CheckpointError, match=r"cannot be read with mixing='lin'; its shapes allow dot\+sftm \(T=9"):
        load(tmp_path / "t.pt", mixing="lin")
    with pytest.raises(CheckpointError, match="cannot be read with L=7"):
        load(tmp_path / "t.pt", L=7)
    counting_model("dot").save(tmp_path / "ours.pt")
    with pytest.raises(CheckpointError, match="says softmax=False itself"):
        load(tmp_path / "ours.pt", softmax=True)
    assert load(tmp_path / "ours.pt", softmax=False, mixing="dot", T=9).config.name == "dot"


@pytest.mark.parametrize(
    ("assume", "message"),
    [({"mixing": "soft"}, "lin or dot or bos, got 'soft'"), ({"softmax": 1}, "bool, got 1"), ({"colour": 1}, "colour")],
)
def test_assumptions_without_sense_are_the_callers_error(tmp_path, assume, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "t.pt", **assume)


def test_the_alphabet_settles_whether_there_is_a_bos_token(tmp_path):
    torch.save(published_layout(small_model("dot", n_classes=6)), tmp_path / "t.pt")
    for (mixing, alphabet), softmax in itertools.product((("dot", 7), ("bos", 6)), (True, False)):
        config = load(tmp_path / "t.pt", T=alphabet, softmax=softmax).config
        assert (config.mixing, config.T, config.softmax) == (mixing, alphabet, softmax)


def test_many_readings_of_a_long_model_share_one_budget(tmp_path, monkeypatch):
    """Each of 32 readings used to take a second or more, 25 s in all for L = 1500."""
    tried = []

    def share_right(model, tokens):
        tried.append(len(tokens))
        return torch.zeros(len(tokens), dtype=torch.float64)

    monkeypatch.setattr("counting_interp.models.checkpoint.bare.share_right", share_right)
    torch.save(
        dict(CountingTransformer(CountingConfig.parse("dot", T=1501, L=1500, d=1, p=1)).state_dict()), tmp_path / "a.pt"
    )
    load(tmp_path / "a.pt")
    assert (len(tried), set(tried)) == (64, {8})


def test_a_model_too_long_to_be_tried_is_refused_before_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("counting_interp.models.checkpoint.bare.share_right", None)
    weights = dict(CountingTransformer(CountingConfig.parse("dot", T=3001, L=3000, d=1, p=1)).state_dict())
    torch.save(weights, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"can be read in 32 ways, and trying them takes about .* say what it is"):
        load(tmp_path / "a.pt")
    assert load(tmp_path / "a.pt", mixing="dot", softmax=True, L=3000, activation="relu", causal=False).config.L == 3000


@pytest.mark.parametrize("variant", ["lin", "lin+sftm"])
def test_a_flag_may_leave_one_reading_that_is_tried(tmp_path, variant):
    """It counts as one of the paper's blocks, so readings with GELU or a causal block are not tried."""
    model = counting_model(variant)
    torch.save(model.state_dict(), tmp_path / "t.pt")
    loaded = load(tmp_path / "t.pt", softmax=model.config.softmax)
    assert loaded.config == model.config
    assert loaded.metadata["assumed"][0].endswith("(published sampler); sure")
