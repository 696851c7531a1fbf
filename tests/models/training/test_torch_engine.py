"""The engine for any block: equal to the kernels, stacked equal to unstacked, and there without numba."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe, Run, advance_together, train
from counting_interp.models.training.engine import draw_tokens, engine_for, why_no_kernels
from counting_interp.models.training.kernel_engine import KernelEngine
from counting_interp.models.training.torch_engine import TorchEngine
from tests.helpers import ROOT, assert_close

SIZES = {"T": 7, "L": 5, "d": 6, "p": 4}
RECIPE = Recipe(epochs=3, sequences=70, batch_size=16, validation=50, schedule="linear")
EVERYTHING = "bos+sftm+values+2heads+norm+gelu+positions+causal"


def config_of(name: str, **options) -> CountingConfig:
    return CountingConfig.parse(name, **{**SIZES, "seed": 3, **options})


@pytest.mark.parametrize("variant", ["lin", "dot", "bos+sftm"])
def test_both_engines_train_the_same_weights(variant):
    config = config_of(variant, dtype="float64")
    weights = CountingTransformer(config).state_dict()
    kernels, by_torch = KernelEngine(config, RECIPE, weights), TorchEngine(config, RECIPE, weights)
    for epoch in range(2):
        done = epoch * RECIPE.steps_per_epoch
        losses = [engine.train(engine.draw(epoch), done) for engine in (kernels, by_torch)]
        assert_close(losses[0], losses[1], 1e-10)
    for name, weight in kernels.state_dict().items():
        assert_close(by_torch.state_dict()[name], weight, 1e-8)
    tokens = draw_tokens(config, RECIPE, 9)
    assert kernels.count_right(kernels.given(tokens)) == by_torch.count_right(by_torch.given(tokens))


@pytest.mark.parametrize("name", ["dot+sftm", EVERYTHING])
def test_stacked_equals_unstacked(name):
    """To rounding on any machine; the learned weights may then differ by what three epochs make of it."""
    recipe = Recipe(epochs=2, sequences=70, batch_size=16, validation=50, weight_decay=0.1)
    configs = [config_of(name, dtype="float64", seed=seed) for seed in range(3)]
    together = [Run(config, recipe) for config in configs]
    while not together[0].finished:
        advance_together(together)
    for config, run in zip(configs, together, strict=True):
        alone = train(config, recipe)
        assert_close(torch.tensor(run.losses), torch.tensor(alone.losses), 1e-9)
        assert run.accuracies == alone.accuracies
        for stacked, single in zip(run.model().parameters(), alone.model().parameters(), strict=True):
            assert_close(stacked, single, 1e-7)


@pytest.mark.parametrize("name", ["bos+sftm+values", "dot+sftm+values+2heads", "bos+values+2heads+norm", EVERYTHING])
def test_an_epoch_is_that_of_a_plain_loop(name):
    """The module as it is, `backward`, and AdamW as it is written in the textbook."""
    recipe = Recipe(sequences=70, batch_size=16, weight_decay=0.1)
    config = config_of(name, dtype="float64")
    model = CountingTransformer(config)
    engine = TorchEngine(config, recipe, model.state_dict())
    tokens = engine.draw(0)
    engine.train(tokens, 0)
    options = {"lr": recipe.lr, "betas": (recipe.beta1, recipe.beta2), "eps": recipe.eps}
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1, foreach=False, fused=False, **options)
    for batch in tokens.split(16):
        optimizer.zero_grad()
        classes = model.truth(batch) - config.first_count
        torch.nn.functional.cross_entropy(model(batch).flatten(0, 1), classes.flatten()).backward()
        optimizer.step()
    for name, weight in model.state_dict().items():
        assert_close(engine.state_dict()[name], weight, 1e-9)


def test_weight_decay_shrinks_what_has_no_gradient():
    """A rate of 0.1 and a decay of 0.5 take 5 % a step from the row of a token that never occurs, and nothing else."""
    config = config_of("dot", dtype="float64")
    weights = CountingTransformer(config).state_dict()
    engine = engine_for(config, Recipe(batch_size=4, lr=0.1, weight_decay=0.5, sequences=8), weights)
    assert isinstance(engine, TorchEngine)
    engine.train(engine.given(torch.tensor([[0, 1, 2, 3, 4]] * 8)), 0)
    assert_close(engine.state_dict()["embed.W_E"][6], weights["embed.W_E"][6] * 0.95**2, 1e-12)


def test_resuming_changes_no_bit():
    config = config_of(EVERYTHING)
    whole = train(config, RECIPE)
    half = Run(config, RECIPE)
    half.advance()
    resumed = Run(config, RECIPE, half.model().state_dict(), half.state())
    while not resumed.finished:
        resumed.advance()
    assert all(torch.equal(a, b) for a, b in zip(whole.model().parameters(), resumed.model().parameters(), strict=True))
    assert whole.losses == resumed.losses


def test_frozen_embeddings_stay():
    config = config_of("dot+values", frozen_embeddings=True)
    model = train(config, RECIPE).model()
    assert torch.equal(model.W_E, CountingTransformer(config).W_E)
    assert not torch.equal(model.W_V, CountingTransformer(config).W_V)


def test_models_that_see_order_are_shown_shuffled_sequences():
    tokens = draw_tokens(config_of("dot+causal"), Recipe(sequences=200), 0)
    side_by_side = (tokens.sort(1).values == tokens).all(1) | (tokens.sort(1, descending=True).values == tokens).all(1)
    assert float(side_by_side.double().mean()) < 0.5


def test_the_faster_engine_is_taken_where_it_can():
    plain = config_of("dot")
    assert why_no_kernels(plain, RECIPE) is None
    assert why_no_kernels(config_of("dot+values+norm"), RECIPE) == (
        "the kernels compute the paper's six variants, and dot+values+norm has values, norm beyond them"
    )
    decay = why_no_kernels(plain, Recipe(weight_decay=0.01))
    assert decay == "the kernels have Adam without weight decay, and the recipe asks for 0.01"


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe, Run
run = Run(CountingConfig.parse("lin+sftm", T=7, L=5, d=6, p=4, seed=3), Recipe(epochs=2, sequences=40, validation=30))
run.advance()
print(type(run.engine).__name__, run.engine.draw(1).sum().item(), round(run.losses[0], 4))
"""


def test_without_numba_training_goes_on_with_the_same_sequences():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_NUMBA], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    config, recipe = config_of("lin+sftm"), Recipe(epochs=2, sequences=40, validation=30)
    with_numba = Run(config, recipe)
    with_numba.advance()
    engine, checksum, loss = done.stdout.split()
    assert engine == "TorchEngine"
    assert int(checksum) == int(draw_tokens(config, recipe, 1).sum())
    assert float(loss) == pytest.approx(with_numba.losses[0], abs=2e-4)
