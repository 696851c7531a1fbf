"""What goes into a file comes out of it, bit for bit, and other people's readers see the same."""

from __future__ import annotations

import os

import numpy as np
import pytest
import safetensors.torch
import torch

from counting_interp.models import CountingTransformer
from counting_interp.models.checkpoint import TrainingState, load, read, save
from counting_interp.util.errors import InterpError
from tests.helpers import EVERY_MODEL, small_model

ENDINGS = (".pt", ".safetensors")


def assert_same_bits(actual: CountingTransformer, expected: CountingTransformer) -> None:
    ours, theirs = actual.state_dict(), expected.state_dict()
    assert list(ours) == list(theirs)
    for name in theirs:
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].numpy().tobytes() == theirs[name].numpy().tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_model_survives_bit_for_bit(tmp_path, variant, n_layers, dtype, ending):
    model = small_model(variant, n_layers, dtype=dtype, n_classes=6, frozen_embeddings=True, seed=5)
    with torch.no_grad():
        model.embed.W_E[0, :4] = torch.tensor([-0.0, 1e-40, 1e30, -1.0])
    model.save(tmp_path / f"model{ending}")
    loaded = CountingTransformer.load(tmp_path / f"model{ending}")
    assert loaded.config == model.config
    assert_same_bits(loaded, model)
    assert not loaded.embed.W_E.requires_grad
    assert not loaded.training


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_the_declared_parameters_are_those_of_the_model(variant, n_layers):
    model = small_model(variant, n_layers)
    declared = {one.name: one.shape for one in model.config.parameters}
    assert declared == {name: tuple(w.shape) for name, w in model.state_dict().items()}


@pytest.mark.parametrize("ending", ENDINGS)
def test_metadata_travel_with_the_file(tmp_path, ending):
    model = small_model("dot")
    model.metadata = {
        "task": {"sampler": "paper"},
        "accuracy": {"value": np.float64(0.1), "n_sequences": np.int64(3000)},
        "losses": (1.5, float("nan")),
        "mechanism": {"label": "RC", "provenance": "constructed"},
        "name": "</script>\x1b[31m[red]é\n🦀",
    }
    save(model, tmp_path / f"m{ending}")
    metadata = load(tmp_path / f"m{ending}").metadata
    assert metadata["accuracy"] == {"value": 0.1, "n_sequences": 3000}
    assert metadata["losses"] == [1.5, None]
    assert metadata["name"] == model.metadata["name"]
    assert metadata["config"] == model.config.to_dict()
    assert metadata["format_version"] == 1
    assert metadata["versions"]["torch"] == torch.__version__
    assert "config" not in model.metadata  # saving changes nothing in the model


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_model_gives_the_same_bytes(tmp_path, ending):
    for name in "ab":
        model = small_model("bos+sftm")
        model.metadata = {"z": "same", "a": ["sa" + "me", 1.5]}
        save(model, tmp_path / (name + ending), training_state=TrainingState({"m": np.ones(3)}, {"epoch": 1}))
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_training_state_survives_bit_for_bit_and_a_plain_load_passes_over_it(tmp_path, ending):
    arrays = {
        "random state": np.array([0, 2**63, 2**64 - 1], dtype=np.uint64),
        "order": np.arange(-3, 3, dtype=np.int64).reshape(2, 3),
        "moments": np.array([np.nan, -0.0, np.inf, 5e-324]),
        "single": np.float32([[1e-45]]),
        "scalar": np.array(7, dtype=np.int64),
        "empty": np.zeros((0, 3)),
        **{f"empty {shape}": np.full(shape, 0.0) for shape in ((0,), (3, 0), (2, 0, 3), (0, 0))},
        "flags": np.array([True, False]),
        "transposed": np.arange(6.0).reshape(2, 3).T,
    }
    values = {"epoch": 3, "rng": 2**64 - 1, "history": [0.1, 1e-300]}
    model = small_model("bos")
    path = tmp_path / f"run{ending}"
    save(model, path, training_state=TrainingState(arrays, values))
    state = read(path).training_state
    assert state is not None
    assert state.values == values
    assert set(state.arrays) == set(arrays)
    for name, array in arrays.items():
        assert state.arrays[name].dtype == array.dtype
        assert state.arrays[name].shape == array.shape
        assert state.arrays[name].tobytes() == array.tobytes()
    assert_same_bits(load(path), model)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_training_state_may_be_all_values_or_empty(tmp_path, ending):
    for state in (TrainingState(values={"epoch": 2}), TrainingState()):
        save(small_model("lin"), tmp_path / f"run{ending}", training_state=state)
        assert read(tmp_path / f"run{ending}").training_state == state


def test_a_finished_model_has_no_training_state_and_the_same_hash(tmp_path):
    model = small_model("lin")
    save(model, tmp_path / "a.pt")
    save(model, tmp_path / "b.safetensors", training_state=TrainingState({"m": np.ones(2)}))
    assert read(tmp_path / "a.pt").training_state is None
    hashes = {load(tmp_path / name).metadata["sha256"] for name in ("a.pt", "b.safetensors")}
    assert len(hashes) == 1


def test_the_content_decides_not_the_ending(tmp_path):
    model = small_model("dot+sftm")
    save(model, tmp_path / "a.pt")
    save(model, tmp_path / "b.safetensors")
    os.rename(tmp_path / "a.pt", tmp_path / "c.safetensors")
    os.rename(tmp_path / "b.safetensors", tmp_path / "d.pt")
    for name in ("c.safetensors", "d.pt"):
        assert read(tmp_path / name).hash_holds
        assert_same_bits(load(tmp_path / name), model)


def test_torch_and_safetensors_read_what_is_written(tmp_path):
    model = small_model("bos+sftm")
    state = TrainingState({"u": np.array([2**63], dtype=np.uint64)}, {})
    save(model, tmp_path / "a.pt", training_state=state)
    save(model, tmp_path / "a.safetensors", training_state=state)
    theirs = torch.load(tmp_path / "a.pt", weights_only=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(theirs["state_dict"][name], tensor)
        assert torch.equal(safetensors.torch.load_file(tmp_path / "a.safetensors")[name], tensor)


def test_saving_over_a_file_that_cannot_be_replaced_leaves_it(tmp_path):
    model = small_model("lin")
    save(model, tmp_path / "a.pt")
    before = (tmp_path / "a.pt").read_bytes()
    model.metadata = {"bad": object()}
    with pytest.raises(ValueError, match="JSON-like"):
        save(model, tmp_path / "a.pt")
    assert (tmp_path / "a.pt").read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.pt"]


def test_what_could_not_be_read_back_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("counting_interp.models.checkpoint.files.MAX_FILE_BYTES", 100)
    with pytest.raises(InterpError, match="at most 100"):
        save(small_model("lin"), tmp_path / "a.pt")
    assert not list(tmp_path.iterdir())
