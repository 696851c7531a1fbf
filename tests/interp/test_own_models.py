"""Verdicts on models that are not ours: the same as ours where the function is the same, and real ones trained here."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import counting_interp as ci
from counting_interp.interp.cli import app
from counting_interp.interp.figures import figures_of
from counting_interp.interp.verdict import classify
from counting_interp.models import Adapter, task
from counting_interp.models.constructions import construct
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.catalogue import CATALOGUE
from counting_interp.probes.isolation import count_sweep
from counting_interp.probes.output_curves import output_curves
from counting_interp.util.errors import InterpError
from tests.plain import PLAIN_HOOKS, PLAIN_MIXER, plain_copy
from tests.probes.test_questions import planted

T, L = 6, 4


@pytest.mark.parametrize(("name", "label"), [("rc-bos+sftm", "RC"), ("ic-dot+sftm", "IC")])
def test_a_plain_torch_module_gets_the_verdict_of_the_model_it_copies(name, label):
    model = construct(name, T=9, L=4, dtype="float64")
    prefix = model.config.prefix
    own = Adapter(
        plain_copy(model),
        T=9,
        L=4,
        prefix=prefix,
        mixer=PLAIN_MIXER,
        hooks=PLAIN_HOOKS,
        encode=lambda s: nn.functional.pad(s, (prefix, 0), value=9),
    )
    got, expected = classify(own, quick=True), classify(model, quick=True)
    assert got.mechanism.group == expected.mechanism.group == label
    assert got.numbers == pytest.approx(expected.numbers, abs=1e-9)
    assert got.accuracy == expected.accuracy == 1


@pytest.mark.parametrize("name", ["rc-dot", "rc-bos", "ic-lin", "ic-lin+sftm"])
def test_a_hooked_model_gets_the_same_verdict_with_and_without_an_adapter(name):
    """With and without a softmax; the read-out goes through hooks in one, through its formula in the other."""
    model = construct(name, T=9, L=4, dtype="float64")
    prefix = model.config.prefix
    own = Adapter(
        model,
        T=9,
        L=4,
        prefix=prefix,
        encode=lambda s: nn.functional.pad(s, (prefix, 0), value=9),
        read=lambda logits: logits,
    )
    got, expected = classify(own, quick=True), classify(model, quick=True)
    assert got.mechanism == expected.mechanism
    assert got.numbers == pytest.approx(expected.numbers, abs=1e-9)


@pytest.mark.parametrize("how", ["list-IC", "question-RC"])
def test_a_question_at_the_end_gets_one_verdict_with_list_and_question_apart(how):
    verdict = ci.classify(planted(how), quick=True)
    place, label = how.split("-")
    assert verdict.mechanism == label
    assert verdict.numbers[label] == verdict.numbers[f"{place}_{label}"] == pytest.approx(1)
    assert (verdict.numbers["list_moves"] > 0.5) == (place == "list")
    entry = verdict.to_dict()
    assert entry["counts_in"] == place
    assert entry["odds"] is None  # models of known mechanism answer at every position
    named = {one["name"]: one["value"] for one in entry["estimates"]}
    assert (named["list_RC"] is None) == (place == "question")
    text = str(verdict)
    assert "of sampled questions" in text
    assert ("The question looks that up" in text) == (place == "list")
    assert ("share of IC, in the list" in text) == (place == "list")
    assert "nan" not in text


def train(module: nn.Module, answers: Callable[[Tensor], Tensor], steps: int = 400) -> None:
    """To say at each position how often its token has occurred so far."""
    optimizer = torch.optim.Adam([weight for weight in module.parameters() if weight.requires_grad], lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        tokens = task.sample("paper", 64, T=T, L=L, generator=rng)
        loss = nn.functional.cross_entropy(answers(tokens).flatten(0, 1), task.running_count(tokens).flatten() - 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.fixture(scope="module")
def bridge() -> nn.Module:
    """Its queries are zero and stay so: attention is the mean of what came before, and there is nothing to flatten."""
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    sizes = {"d_model": 16, "d_head": 8, "n_heads": 2, "d_mlp": 64, "n_layers": 1, "n_ctx": L, "d_vocab": T}
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("default")  # those of the library, while it builds a model
        torch.manual_seed(0)
        bridge = TransformerBridge.boot_native(TransformerBridgeConfig(**sizes, act_fn="relu"))
    for name, weight in bridge.named_parameters():
        if ".q." in name:
            weight.requires_grad_(False).zero_()
    train(bridge, lambda tokens: bridge(tokens)[..., :L])
    return bridge


def start(sequences: Tensor) -> Tensor:
    return nn.functional.pad(sequences, (1, 0), value=T)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> tuple[nn.Module, Adapter]:
    """A Hugging Face model, and through a bridge."""
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": T + 1, "n_positions": L + 1, "n_embd": 16, "n_layer": 1, "n_head": 2}
    folder = tmp_path_factory.mktemp("gpt2")
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("default")
        torch.manual_seed(0)
        module = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        module.save_pretrained(folder)
        train(module, lambda tokens: module(start(tokens)).logits[:, 1:, :L])
        wrapped = TransformerBridge.boot_transformers(str(folder), hf_model=module)
    return module, Adapter(wrapped, T=T, L=L, name="gpt2")


@pytest.mark.slow
def test_a_native_bridge_that_cannot_compare_is_inventory_based(bridge):
    with pytest.raises(
        InterpError, match="something else reaches a position"
    ):  # an input, which the residual goes around
        Adapter(bridge, T=T, L=L, mixer="blocks.{layer}.hook_resid_mid")
    verdict = classify(Adapter(bridge, T=T, L=L))
    assert verdict.accuracy > 0.95
    assert verdict.numbers["IC"] == pytest.approx(1, abs=0.02)
    assert verdict.mechanism == "IC"


@pytest.mark.slow
def test_a_hugging_face_model_through_a_bridge(gpt2):
    module, model = gpt2
    tokens = task.sample("paper", 50, T=T, L=L, generator=1)
    with torch.no_grad():
        torch.testing.assert_close(model.run_with_hooks(tokens), module(start(tokens)).logits[:, 1:, :L])
    verdict = classify(model)
    assert verdict.accuracy > 0.95
    assert verdict.mechanism != "unsolved"
    assert verdict.numbers["own"] > 0.5
    assert str(verdict).splitlines()[1].split() == ["model", "gpt2,", "T=6,", "L=4,", "d=16,", "p=64"]


REFUSED = {"spectrum", "bos-sweep", "simplex", "step-function", "published"}  # each in one sentence


@pytest.mark.slow
@pytest.mark.parametrize("which", ["bridge", "gpt2"])
def test_every_probe_and_figure_of_a_model_of_another_kind(which, bridge, gpt2):
    model = Adapter(bridge, T=T, L=L) if which == "bridge" else gpt2[1]
    drawn = {drawing.name.removesuffix("-1") for drawing in figures_of(model)}
    for probe in CATALOGUE:
        if probe.name in REFUSED or (probe.name == "bos-share" and model.config.prefix == 0):
            with pytest.raises(NotApplicable, match=r"^[^.]+(\. ?[^A-Z.]+)*$"):
                probe.run(model)
        else:
            assert probe.run(model).rows()
            assert probe.name in drawn
    curves, sweep = output_curves(model), count_sweep(model)
    assert curves.summary["accuracy"] > 0.9
    ends = sweep.predicted[sweep.defined][:, [0, -1]]
    counted = torch.tensor([1, L]).expand_as(ends)
    assert (ends == counted).double().mean() > 0.9  # the ends of the line are the model's own answers


MY_MODEL = """
import beside
from counting_interp.models import Adapter, CountingTransformer

def load(path):
    model = CountingTransformer.load(path)
    return Adapter(model, T=9, L=4, name=beside.NAME, metadata={"step": 7})

def nothing(path):
    return None

def broken(path):
    return {}["key"]

constant = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside.py").write_text("NAME = 'mine'")
    (tmp_path / "my_model.py").write_text(MY_MODEL)
    (tmp_path / "faulty.py").write_text("import no_such_thing")
    construct("rc-dot", T=9, L=4).save(tmp_path / "ckpt.pt")
    return tmp_path


def run(folder: Path, adapter: str, *options: str, command: tuple[str, ...] = ("classify", "--quick")):
    return CliRunner().invoke(app, [*command, str(folder / "ckpt.pt"), "--adapter", adapter, *options])


def test_the_command_line_loads_with_the_function_it_is_given(folder):
    result = run(folder, f"{folder / 'my_model.py'}:load", "--json")
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads(result.stdout)["results"]
    assert (entry["mechanism"], entry["model"], entry["T"], entry["step"]) == ("RC", "mine", 9, 7)


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("my_model.py", "my_model.py:load"),
        ("my_model.py:other", "no function other"),
        ("my_model.py:constant", "no function constant"),
        ("no_model.py:load", "no Python file"),
        ("faulty.py:load", "cannot be imported (ModuleNotFoundError"),
    ],
)
def test_code_that_cannot_be_had_is_an_error_of_usage(folder, monkeypatch, adapter, words):
    monkeypatch.chdir(folder)
    result = run(folder, adapter)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("name", "words"), [("broken", "failed on it (KeyError: 'key')"), ("nothing", "a NoneType")])
def test_code_that_fails_on_a_file_refuses_it(folder, name, words):
    result = run(folder, f"{folder / 'my_model.py'}:{name}")
    assert result.exit_code == 3
    assert words in result.stderr


def test_probes_load_with_it_and_refuse_in_a_sentence(folder):
    mine = f"{folder / 'my_model.py'}:load"
    result = run(folder, mine, "--json", command=("probe", "confusion"))
    assert result.exit_code == 0, result.stderr
    (entry,) = json.loads(result.stdout)["results"]
    assert (entry["model"], entry["summary"]["accuracy"]) == ("mine", 1)
    refused = run(folder, mine, command=("probe", "spectrum"))
    assert refused.exit_code == 1
    assert "of mine only hook points are known" in refused.stderr


def test_figures_load_with_it(folder):
    only = ("--only", "cue-conflict", "--only", "spectrum", "--format", "html", "-o", str(folder / "drawn"))
    result = run(folder, f"{folder / 'my_model.py'}:load", *only, command=("figures",))
    assert result.exit_code == 0, result.stderr
    assert (folder / "drawn" / "cue-conflict-1.html").exists()
    assert "of mine only hook points are known" in result.stderr


def test_a_report_says_that_the_page_cannot_run_it(folder):
    page = folder / "report.html"
    result = run(folder, f"{folder / 'my_model.py'}:load", "-o", str(page), command=("report",))
    assert result.exit_code == 0, result.stderr
    text = page.read_text()
    assert "this is a model of another kind" in text
    assert "derived for the paper&#x27;s blocks, and mine has a block of its own" in text
    assert 'data-live="' not in text.split("<script>")[0]


def test_nothing_else_of_a_model_can_be_told_with_it(folder):
    assert run(folder, f"{folder / 'my_model.py'}:load", "--prove").exit_code == 2


def test_each_example_of_the_page_is_under_ten_lines():
    """From a trained model to a verdict; `my_model.py`, which trains it, is what people bring."""
    page = (Path(__file__).parents[2] / "docs" / "your-own-model.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0].strip() for block in page.split("```python\n")[1:]]
    steps = [block for block in blocks if not block.startswith("# ")]  # those are files
    assert len(steps) == 4
    assert max(len(step.splitlines()) for step in steps) < 10
    for opened in ("ci.Adapter(net, T=T, L=L)", "interp classify my_llama -L 5", "ask=question, at=-1"):
        assert opened in page
