"""Both engines against the definition: logits and all gradients. Runs that would not end are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import Engine, too_large
from counting_interp.models.training.kernel_engine import KernelEngine
from counting_interp.models.training.kernels.batches import MANY
from counting_interp.models.training.torch_engine import TorchEngine, differentiation
from tests.helpers import BLOCKS, EVERY_MODEL, assert_close

SIZES = {"T": 7, "L": 5, "d": 6, "p": 4}
WIDE = {"T": 40, "L": 33, "d": 128, "p": 40}  # more keys, classes and hidden units than a vector has lanes
MANY_TOKENS = {"T": 150, "L": 7, "d": 6, "p": 4}  # most of which do not occur in a batch
BATCH = 40


def engine_and_model(config: CountingConfig, kind: type = KernelEngine) -> tuple[Engine, CountingTransformer]:
    model = CountingTransformer(config)
    return kind(config, Recipe(batch_size=BATCH, lr=0.0), model.state_dict()), model


def logits_of(engine: Engine, tokens: torch.Tensor) -> torch.Tensor:
    """As the engine computes them, of one batch."""
    if isinstance(engine, TorchEngine):
        return engine.logits(tokens)
    assert isinstance(engine, KernelEngine)
    data, n, config = engine.given(tokens), len(tokens), engine.config
    engine.count_right(data)
    last = engine._second or engine._first
    if config.mixing == "lin":
        rows = np.arange(config.L) * (n + 1) + np.arange(n)[:, None]
    else:
        rows = np.empty((n, config.L), int)
        rows[engine._first.rows.order[:n]] = last.rows.start[:n, None]
        rows += data.slots
    return torch.from_numpy(last.trace.out[rows, : config.classes])


def gradients_of(engine: Engine, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of the last step of the kernels, or by autograd as the other engine calls it."""
    if isinstance(engine, KernelEngine):
        return engine._gradient.write()
    assert isinstance(engine, TorchEngine)
    model, weights = engine.module.model, {name: w[None] for name, w in engine.state_dict().items()}
    trained = [parameter.name for parameter in model.config.parameters if parameter.trained]
    for name in trained:
        weights[name].requires_grad_()
    classes = model.truth(tokens) - model.config.first_count
    _, gradients = differentiation(engine)(weights, tokens[None], classes[None])
    return {name: gradient[0] for name, gradient in zip(trained, gradients, strict=True) if gradient is not None}


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
        moved = gradients_of(engine, tokens)["embed.W_E"].any(1).nonzero().flatten()
        assert moved.tolist() == [*tokens.unique().tolist(), config.T]


def assert_equal_to_autograd(config: CountingConfig, kind: type = KernelEngine) -> None:
    engine, model = engine_and_model(config, kind)
    tokens = sequences(config)
    assert_close(logits_of(engine, tokens), model(tokens), 1e-12)
    loss = torch_loss(model, tokens)
    loss.backward()
    assert_close(engine.train(engine.given(tokens), steps_done=0), loss, 1e-12)
    gradients = gradients_of(engine, tokens)
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
    gradients = gradients_of(engine, tokens)
    for name, parameter in exact.named_parameters():
        assert parameter.grad is not None
        assert_close(gradients[name], parameter.grad, 2e-5 * max(1.0, float(parameter.grad.abs().max())))


@pytest.mark.parametrize("name", ["lin", "dot+sftm", "bos", "dot+sftm+values+4heads+norm+gelu"])
@pytest.mark.parametrize(("T", "L", "size"), [(32, 10, 128), (64, 30, 128), (512, 10, 32), (100, 100, 64)])
def test_what_is_trained_in_practice_is_not_refused(name, T, L, size):
    config = CountingConfig.parse(name, T=T, L=L, d=size, p=size)
    assert too_large(config, Recipe(), together=16) is None


@pytest.mark.parametrize(
    ("name", "sizes", "recipe", "reason"),
    [
        ("bos+sftm", (4096, 4096, 1, 1), {}, r"training needs 10 GB for bos\+sftm, T=4096, L=4096, d=1, p=1 and bat"),
        ("dot", (32, 10, 8, 8), {"batch_size": 10**9}, r"training needs [\d,]+ GB"),
        ("dot", (32, 10, 8, 8), {"sequences": 10**9}, "training needs 298 GB"),
        ("dot+sftm+values", (1000, 1000, 8, 8), {"batch_size": 512}, r"training needs \d\d GB"),
        (
            "dot+sftm+values",
            (1000, 1000, 64, 64),
            {"sequences": 100_000, "batch_size": 16},
            r"an epoch of 100,000 sequences takes about 1 h \d+ min for dot\+sftm\+values, T=1000",
        ),
        ("lin", (4000, 4000, 1, 1), {}, r"a checkpoint on the way, of lin, .* would take 192,[\d,]+ of at most"),
    ],
)
def test_what_would_not_end_is_refused_in_one_sentence(name, sizes, recipe, reason):
    config = CountingConfig.parse(name, **dict(zip("TLdp", sizes, strict=True)))
    refusal = too_large(config, Recipe(**recipe))
    assert refusal is not None
    assert re.match(reason, refusal), refusal
