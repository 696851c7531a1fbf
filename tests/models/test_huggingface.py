"""Hugging Face folders are taken as they are, or refused in a sentence; nothing in them is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.interp.verdict import classify
from counting_interp.models.adapter import huggingface
from counting_interp.util.errors import CheckpointError, InterpError

T, L = 6, 4
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An untrained model for token classification, with as many labels as counts."""
    import transformers

    transformers.logging.set_verbosity_error()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=T + 1, num_labels=L, initializer_range=0.5, **SIZES)
        net = transformers.BertForTokenClassification(config)
    path = tmp_path_factory.mktemp("hf") / "counter"
    net.save_pretrained(path)
    return path


def test_labels_say_the_length_and_a_small_vocabulary_the_tokens(folder):
    model = huggingface.load(folder)
    assert (model.config.L, model.config.name) == (L, "counter")
    assert model.config.T in (T, T + 1)
    assert model.mixers.template == "bert.encoder.layer.0.attention.output.dense"


def test_tokens_and_classes_can_be_named(folder):
    model = huggingface.load(folder, tokens=[5, 3, 1, 0], classes=[2, 0, 1, 3])
    assert (model.config.T, model.config.L) == (4, 4)
    tokens = torch.tensor([[0, 1, 2, 3]])
    ids = model.reading.encode(tokens)
    assert ids[0, -4:].tolist() == [5, 3, 1, 0]
    with torch.no_grad():
        expected = model.module(ids).logits[:, -4:][..., [2, 0, 1, 3]]
    torch.testing.assert_close(model.run_with_hooks(tokens), expected)


def test_logits_that_were_guessed_are_asked_for_where_the_model_does_not_count(tmp_path):
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=20, **SIZES))
    net.save_pretrained(tmp_path / "llama")
    verdict = classify(huggingface.load(tmp_path / "llama", tokens=range(9, 15), L=L), quick=True)
    assert "say with --classes which they are" in verdict.reason


def changed(folder: Path, tmp_path: Path, **config) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    stored = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**stored, **config}))
    return copy


def test_only_weights_that_cannot_run_code_are_read(folder, tmp_path):
    copy = changed(folder, tmp_path)
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"no \.safetensors file.*Is it your own transformer"):
        huggingface.load(copy)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["Mine"], "auto_map": {"AutoModel": "evil.Mine"}}, "'Mine' is none of transformers' own"),
        ({"architectures": ["set_seed"]}, "is none of transformers' own"),
        ({"architectures": None}, "None is none of"),
        ({"hidden_size": 24}, "transformers cannot load it"),
        ({"num_hidden_layers": 2}, "lacks weights of the model"),
    ],
)
def test_folders_of_other_kinds_are_refused(folder, tmp_path, config, words):
    copy = changed(folder, tmp_path, **config)
    (copy / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(CheckpointError, match=words):
        huggingface.load(copy)


def test_what_is_missing_is_asked_for(folder):
    with pytest.raises(CheckpointError, match="must name 3 logits"):
        huggingface.load(folder, classes=[0, 1], L=3)
    with pytest.raises(CheckpointError, match="names the id 99"):
        huggingface.load(folder, tokens=[0, 99, 2, 3])


@pytest.mark.parametrize("text", ["{", "[]", '["a"]', "[true, 1]", "[1, 1]", "[-1, 2]"])
def test_files_of_ids_are_lists_of_ids(tmp_path, text):
    (tmp_path / "ids.json").write_text(text)
    with pytest.raises(InterpError, match=r"must hold a JSON list|names an id twice"):
        huggingface.ids(tmp_path / "ids.json")


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_inspect_says_what_was_found(folder):
    result = run("inspect", folder)
    assert result.exit_code == 0, result.stderr
    assert "bert.encoder.layer.0.attention.output.dense [row" in result.stdout
    assert "checked: its values from another sequence" in result.stdout
    (entry,) = json.loads(run("inspect", folder, "--json").stdout)["results"]
    assert (entry["L"], entry["n_heads"]) == (L, 2)


def test_commands_take_a_folder_as_one_model(folder, tmp_path):
    (tmp_path / "ids.json").write_text("[0, 1, 2, 3, 4]")
    result = run("probe", "confusion", folder, "--tokens", tmp_path / "ids.json", "--json")
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads(result.stdout)["results"]
    assert (entry["model"], entry["path"]) == ("counter", str(folder))
    heads = [run("probe", "attention", folder, "--head", head, "--csv").stdout for head in (0, 1)]
    assert heads[0] != heads[1]
    assert run("probe", "attention", folder, "--head", 7).exit_code == 2
    assert run("probe", "confusion", folder, "--softmax").exit_code == 3
    assert run("probe", "confusion", folder, "--tokens", folder / "config.json").exit_code == 2


def test_a_foreign_state_dict_leads_to_the_adapter(folder, tmp_path):
    torch.save({"wte.weight": torch.ones(3, 3)}, tmp_path / "gpt.pt")
    for path in (tmp_path / "gpt.pt", folder / "model.safetensors"):
        result = run("classify", path)
        assert result.exit_code == 3
        assert "Is it your own transformer? `--adapter my_model.py:load`" in " ".join(result.stderr.split())
