"""Runs: the curve of a plain torch trainer, the same bits for the same seed, and resuming."""

from __future__ import annotations

import math

import pytest
import torch

from counting_interp.models import CountingConfig, CountingTransformer, task
from counting_interp.models.training import Recipe, Run, train
from counting_interp.models.training.engine import SAMPLER_CODES, draw_tokens, validation_sequences
from counting_interp.models.training.run import log_spaced
from tests.helpers import EVERY_MODEL, assert_close

RECIPE = Recipe(epochs=3, sequences=250, batch_size=32, validation=100)


def plain_losses(config: CountingConfig, recipe: Recipe) -> tuple[list[float], CountingTransformer]:
    """The same training by torch: autograd on the hooked model, torch's Adam, one batch after the other."""
    model = CountingTransformer(config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=recipe.lr, betas=(recipe.beta1, recipe.beta2), eps=recipe.eps)
    rates = iter(recipe.rates(0, recipe.epochs * recipe.steps_per_epoch).tolist())
    losses = []
    for epoch in range(recipe.epochs):
        total = 0.0
        for tokens in draw_tokens(config, recipe, epoch).split(recipe.batch_size):
            classes = task.histogram(tokens) - config.first_count
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), classes.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.param_groups[0]["lr"] = next(rates)
            optimizer.step()
            total += float(loss.detach()) * len(tokens)
        losses.append(total / recipe.sequences)
    return losses, model


@pytest.mark.parametrize(("variant", "n_layers"), EVERY_MODEL)
@pytest.mark.parametrize("sampler", ["paper", "uniform"])
def test_curve_of_200_steps_equals_the_plain_trainer(variant, n_layers, sampler):
    schedule = "cosine" if sampler == "uniform" else "constant"
    config = CountingConfig.parse(variant, T=7, L=5, d=6, p=4, n_layers=n_layers, dtype="float64", seed=2)
    recipe = Recipe(epochs=5, sequences=310, batch_size=8, sampler=sampler, validation=200, schedule=schedule)
    result = train(config, recipe)
    losses, model = plain_losses(config, recipe)
    assert_close(torch.tensor(result.losses), torch.tensor(losses), 1e-8)
    trained = dict(result.model().named_parameters())
    for name, parameter in model.named_parameters():
        assert_close(trained[name], parameter, 1e-6)
    assert result.accuracies[-1] == pytest.approx(model.accuracy(validation_sequences(config, recipe)))


@pytest.mark.parametrize("variant", ["lin+sftm", "bos+sftm"])
def test_single_precision_curve_stays_near_the_plain_trainer(variant):
    config = CountingConfig.parse(variant, T=32, L=10, d=16, p=24, seed=1)
    recipe = Recipe(epochs=3, sequences=3200, validation=300)
    losses, _ = plain_losses(config, recipe)
    assert_close(torch.tensor(train(config, recipe).losses), torch.tensor(losses), 1e-3)


def test_frozen_embeddings_stay():
    config = CountingConfig.parse("dot+sftm", T=7, L=5, d=6, p=4, frozen_embeddings=True)
    result = train(config, RECIPE)
    before = CountingTransformer(config)
    assert torch.equal(result.model().W_E, before.W_E)
    assert not torch.equal(result.model().blocks[0].mlp.W_in, before.blocks[0].mlp.W_in)


def test_every_sampler_trains_on_its_own_data():
    config = CountingConfig.parse("dot", T=7, L=5, d=6, p=4)
    curves = {
        sampler: train(config, Recipe(epochs=1, sequences=200, sampler=sampler)).losses for sampler in SAMPLER_CODES
    }
    assert len({tuple(losses) for losses in curves.values()}) == 3


@pytest.mark.parametrize("variant", ["lin", "bos+sftm"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_same_seed_same_bits_and_resuming_changes_nothing(variant, n_layers):
    config = CountingConfig.parse(variant, T=7, L=5, d=6, p=4, n_layers=n_layers, seed=4)
    whole = train(config, RECIPE)
    again = train(config, RECIPE)
    half = Run(config, RECIPE)
    half.advance()
    resumed = Run(config, RECIPE, half.model().state_dict(), half.state())
    assert resumed.epoch == 1
    while not resumed.finished:
        resumed.advance()
    other = train(config.replace(seed=5), RECIPE)
    for model in (again.model(), resumed.model()):
        assert all(torch.equal(a, b) for a, b in zip(whole.model().parameters(), model.parameters(), strict=True))
    assert (whole.losses, whole.accuracies) == (resumed.losses, resumed.accuracies)
    assert whole.model().metadata == resumed.model().metadata
    assert whole.losses != other.losses


def test_metadata_say_where_a_model_comes_from():
    config = CountingConfig.parse("dot", T=7, L=5, d=6, p=4, seed=9)
    result = train(config, RECIPE)
    metadata = result.model().metadata
    assert metadata["seed"] == 9
    assert metadata["step"] == 3 * 8
    assert metadata["training"] == RECIPE.to_dict()
    assert metadata["accuracy"] == {"value": result.accuracies[-1], "n_sequences": 100, "sampler": "paper"}
    assert metadata["best_accuracy"]["value"] == max(result.accuracies)
    assert metadata["history"] == {
        "epochs": [1, 2, 3],
        "losses": list(result.losses),
        "accuracies": list(result.accuracies),
    }


def test_log_spaced():
    assert log_spaced(3, 40) == [0, 1, 2, 3]
    assert log_spaced(500, 2) == [0, 500]
    epochs = log_spaced(500, 20)
    assert epochs[:4] == [0, 1, 2, 3]
    assert epochs[-1] == 500
    assert 15 <= len(epochs) <= 20


@pytest.mark.parametrize(
    ("field", "value"), [("epochs", 0), ("sequences", -3), ("lr", -1.0), ("beta2", 1.0), ("validation", True)]
)
def test_impossible_recipes_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} must be .* got {value!r}"):
        Recipe(**{field: value})


def test_unknown_sampler_is_refused():
    with pytest.raises(ValueError, match="sampler must be one of paper, published, uniform, got 'magic'"):
        Recipe(sampler="magic")


@pytest.mark.parametrize("variant", ["lin+sftm", "dot", "bos+sftm"])
def test_a_run_that_has_diverged_is_seen_to_have(variant):
    config = CountingConfig.parse(variant, T=6, L=4, d=5, p=3)
    weights = CountingTransformer(config).state_dict()
    weights["embed.W_E"][0, 0] = math.nan
    assert math.isnan(Run(config, RECIPE, weights).train_epoch())


@pytest.mark.parametrize("variant", ["dot", "bos+sftm", "bos+sftm+values+2heads", "lin"])  # by kernels and by autograd
def test_a_recipe_scales_the_first_queries_and_keys_and_nothing_else(variant):
    config = CountingConfig.parse(variant, T=7, L=5, d=6, p=4, n_layers=2, seed=2)
    usual, scaled = (Run(config, Recipe(qk_scale=scale)).engine.state_dict() for scale in (1.0, 0.25))
    factors = {name: 0.25 if name.endswith((".W_Q", ".W_K")) else 1.0 for name in usual}
    assert all(torch.equal(scaled[name], factor * usual[name]) for name, factor in factors.items())
    assert (0.25 in factors.values()) == (variant != "lin")
    assert "qk_scale" not in Recipe().to_dict()
    assert Recipe(**Recipe(qk_scale=0.25).to_dict()).qk_scale == 0.25


@pytest.mark.parametrize("scale", [-1.0, 1000.0, math.nan])
def test_a_scale_that_no_start_can_have(scale):
    with pytest.raises(ValueError, match="qk_scale"):
        Recipe(qk_scale=scale)
