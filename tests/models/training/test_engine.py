"""Both engines against the definition: logits and all gradients, every variant, one and two blocks."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import Engine
from counting_interp.models.training.kernel_engine import KernelEngine
from counting_interp.models.training.kernels.batches import MANY
from counting_interp.models.training.torch_engine import TorchEngine
from tests.helpers import BLOCKS, EVERY_MODEL, assert_close

SIZES = {"T": 7, "L": 5, "d": 6, "p": 4}
WIDE = {"T": 40, "L": 33, "d": 128, "p": 40}  # more keys, classes and hidden units than a vector has lanes
MANY_TOKENS = {"T": 150, "L": 7, "d": 6, "p": 4}  # most of which do not occur in a batch
BATCH = 40


def engine_and_model(config: CountingConfig, kind: type = KernelEngine) -> tuple[Engine, CountingTransformer]:
    model = CountingTransformer(config)
    return kind(config, Recipe(batch_size=BATCH, lr=0.0), model.state_dict()), model


def torch_loss(model: CountingTransformer, tokens: torch.Tensor) -> torch.Tensor:
    classes = model.truth(tokens) - model.config.first_count
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), classes.flatten())


def sequences(config: CountingConfig, n: int = BATCH, seed: int = 1) -> torch.Tensor:
    """Of all three samplers, so that counts from 1 to L occur."""
    share = [n // 2, n // 4, n - n // 2 - n // 4]
    parts = [
        task.sample(sampler, size, T=config.T, L=config.L, generator=seed)
        for sampler, size in zip(("paper", "published", "uniform"), share, strict=True)
    ]
    return torch.cat(parts)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
@pytest.mark.parametrize("options", [{}, {"n_classes": 6}, {"frozen_embeddings": True}], ids=str)
@pytest.mark.parametrize("kind", [KernelEngine, TorchEngine])
def test_logits_and_gradients_equal_autograd(variant, n_layers, options, kind):
    config = CountingConfig.parse(variant, n_layers=n_layers, dtype="float64", seed=3, **SIZES, **options)
    assert_equal_to_autograd(config, kind)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_beyond_the_paper_too(name):
    assert_equal_to_autograd(CountingConfig.parse(name, n_layers=2, dtype="float64", seed=3, **SIZES), TorchEngine)


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_wide_models_too(variant, n_layers):
    assert_equal_to_autograd(CountingConfig.parse(variant, n_layers=n_layers, dtype="float64", seed=3, **WIDE))


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_large_alphabets_too(variant, n_layers):
    config = CountingConfig.parse(variant, n_layers=n_layers, dtype="float64", seed=3, **MANY_TOKENS)
    assert config.vocab >= MANY
    assert_equal_to_autograd(config)


def test_only_tokens_that_occur_have_a_gradient_and_a_second_batch_forgets_the_first():
    config = CountingConfig.parse("bos+sftm", dtype="float64", seed=3, **MANY_TOKENS)
    engine, _ = engine_and_model(config)
    for seed in (1, 2):
        tokens = sequences(config, seed=seed)
        engine.train(engine.given(tokens), steps_done=0)
        moved = engine.gradients()["embed.W_E"].any(1).nonzero().flatten()
        assert moved.tolist() == [*tokens.unique().tolist(), config.T]


def assert_equal_to_autograd(config: CountingConfig, kind: type = KernelEngine) -> None:
    engine, model = engine_and_model(config, kind)
    tokens = sequences(config)
    assert_close(engine.logits(tokens), model(tokens), 1e-12)
    loss = torch_loss(model, tokens)
    loss.backward()
    assert_close(engine.train(engine.given(tokens), steps_done=0), loss, 1e-12)
    gradients = engine.gradients()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert_close(gradients[name], parameter.grad, 1e-12)
    assert all(bool(value.any()) for name, value in gradients.items() if name != "embed.W_E")


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
def test_single_precision_gradients_are_as_near_as_single_precision_allows(variant, n_layers):
    config = CountingConfig.parse(variant, n_layers=n_layers, T=32, L=10, d=45, p=20, seed=5)
    engine, _ = engine_and_model(config)
    exact = CountingTransformer(config.replace(dtype="float64"), CountingTransformer(config).state_dict())
    tokens = sequences(config)
    loss = torch_loss(exact, tokens)
    loss.backward()
    assert_close(engine.train(engine.given(tokens), steps_done=0), loss, 1e-5)
    gradients = engine.gradients()
    for name, parameter in exact.named_parameters():
        assert parameter.grad is not None
        assert_close(gradients[name], parameter.grad, 2e-5 * max(1.0, float(parameter.grad.abs().max())))
