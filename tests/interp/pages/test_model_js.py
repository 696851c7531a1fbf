"""The JavaScript model against torch: same logits on random sequences, every variant, one and two layers."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import torch

from counting_interp.interp.pages.live import model_payload, rounded
from counting_interp.models import CountingConfig, CountingTransformer, task
from tests.helpers import BLOCKS, EVERY_MODEL, ROOT, assert_close, small_block

MODEL_JS = ROOT / "interp" / "pages" / "assets" / "model.js"
RUN = """
const { CountingModel } = require(process.argv[1]);
const { payload, sequences, swaps, edit } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const model = new CountingModel(payload);
const results = sequences.map((tokens, i) => model.run(tokens, swaps ? swaps[i] : null, edit));
process.stdout.write(JSON.stringify({ logits: results.map((r) => r.logits), counts: results.map((r) => r.counts) }));
"""

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def run_in_node(
    model: CountingTransformer,
    tokens: torch.Tensor,
    swaps: list | None = None,
    half: bool = False,
    edit: dict | None = None,
) -> dict:
    payload = model_payload(model, half=half)
    document = json.dumps({"payload": payload, "sequences": tokens.tolist(), "swaps": swaps, "edit": edit})
    command = ["node", "-e", RUN, str(MODEL_JS)]
    done = subprocess.run(command, input=document, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_logits_equal_torch(variant: str, n_layers: int) -> None:
    config = CountingConfig.parse(variant, T=32, L=10, d=16, p=24, n_layers=n_layers, n_classes=10 + (n_layers == 2))
    model = CountingTransformer(config)
    tokens = task.sample("paper", 1000, T=32, L=10, generator=0)
    answer = run_in_node(model, tokens)
    assert_close(answer["logits"], model(tokens).detach(), 1e-4)
    assert answer["counts"] == model.predict(tokens).tolist()


def test_half_precision_is_torch_on_the_rounded_weights() -> None:
    """Also numbers below the smallest normal one of half precision."""
    model = CountingTransformer(CountingConfig.parse("bos+sftm", T=32, L=10, d=16, p=24))
    weights = model.state_dict()
    weights["embed.W_E"][0] *= 1e-6
    model = CountingTransformer(model.config, weights)
    close = rounded(model)
    assert torch.equal(close.W_E, model.W_E.half().float())
    assert not torch.equal(close.W_E, model.W_E)
    tokens = task.sample("paper", 200, T=32, L=10, generator=0)
    answer = run_in_node(model, tokens, half=True)
    assert_close(answer["logits"], close(tokens).detach(), 1e-4)
    assert answer["counts"] == close.predict(tokens).tolist()


def test_weights_beyond_half_precision_are_not_rounded() -> None:
    model = CountingTransformer(CountingConfig.parse("bos+sftm", T=32, L=10, d=16, p=24))
    weights = model.state_dict()
    weights["embed.W_E"] *= 1e5
    model = CountingTransformer(model.config, weights)
    assert torch.equal(rounded(model).W_E, model.W_E)
    packed = model_payload(model, half=True)["weights"]
    assert ["half" in packed[name] for name in ("embed.W_E", "blocks.0.attn.W_Q")] == [False, True]


@pytest.mark.parametrize("name", BLOCKS)
def test_logits_of_other_blocks_equal_torch(name: str) -> None:
    model = small_block(name, n_layers=2, dtype="float32")
    tokens = task.sample("paper", 50, T=7, L=5, generator=0)
    answer = run_in_node(model, tokens)
    assert_close(answer["logits"], model(tokens).detach(), 1e-4)


def test_the_self_path_of_several_heads() -> None:
    """The residual and each head's own value become those of the other token at the same place; the pattern stays."""
    model = small_block("bos+sftm+values+2heads+norm+gelu+positions", dtype="float32")
    tokens = task.sample("paper", 20, T=7, L=5, generator=1)
    position, other, here = 2, 5, 3
    told = tokens.clone()
    told[:, position] = other
    _, own = model.run_with_cache(tokens)
    _, donor = model.run_with_cache(told)

    def swap(mixed, hook):
        weight = own["pattern", 0][:, :, here, here, None]  # [batch, head, 1]
        change = weight * (donor["v", 0] - own["v", 0])[:, here]
        mixed = mixed.clone()
        mixed[:, here] += (donor["resid_pre", 0] - own["resid_pre", 0])[:, here]
        mixed[:, here] += torch.einsum("bhe,hed->bd", change, model.blocks[0].attn.W_O)
        return mixed

    expected = model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_resid_mid", swap)])
    answer = run_in_node(model, tokens, [{"position": position, "token": other}] * len(tokens))
    assert_close(answer["logits"], expected.detach(), 1e-4)


@pytest.mark.parametrize("variant", ["lin", "dot+sftm", "bos", "bos+sftm"])
def test_the_self_path_swap_is_the_hooked_one(variant: str) -> None:
    model = CountingTransformer(CountingConfig.parse(variant, T=8, L=6, d=9, p=7))
    tokens = task.sample("paper", 50, T=8, L=6, generator=1)
    position, other, shift = 2, 5, model.config.n_positions - 6

    def swap(mixed, hook):
        here = position + shift
        diagonal = cache["pattern", 0][:, 0, here, here, None]
        mixed = mixed.clone()
        mixed[:, here] += (1 + diagonal) * (model.W_E[other] - model.W_E[tokens[:, position]])
        return mixed

    _, cache = model.run_with_cache(tokens)
    expected = model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_resid_mid", swap)])
    answer = run_in_node(model, tokens, [{"position": position, "token": other}] * len(tokens))
    assert_close(answer["logits"], expected.detach(), 1e-4)


@pytest.mark.parametrize("name", ["dot", "bos+sftm", "bos+sftm+values+2heads+norm+gelu+positions"])
@pytest.mark.parametrize("head", [None, 0])
def test_a_weight_that_is_set_is_the_hooked_one(name: str, head: int | None) -> None:
    """In the second block, of one head or of all; under a softmax the rest of the row stays in proportion."""
    model = small_block(name, n_layers=2, dtype="float32")
    tokens = task.sample("paper", 20, T=7, L=5, generator=2)
    query, key, weight = 2, 1, 0.3

    def put(pattern, hook):
        changed = pattern.clone()
        heads = range(pattern.shape[1]) if head is None else [head]
        for one in heads:
            row = pattern[:, one, query]
            if model.config.softmax:
                row = row * ((1 - weight) / (1 - row[:, key : key + 1]))
            changed[:, one, query] = row
            changed[:, one, query, key] = weight
        return changed

    expected = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_pattern", put)])
    answer = run_in_node(model, tokens, edit={"layer": 1, "head": head, "query": query, "key": key, "weight": weight})
    assert_close(answer["logits"], expected.detach(), 1e-4)
