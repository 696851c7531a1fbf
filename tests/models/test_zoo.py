"""The zoo: complete, as accurate as its metadata say, and explained."""

from __future__ import annotations

import pytest

from counting_interp.data import zoo_names, zoo_path
from counting_interp.models import CountingTransformer
from counting_interp.models.config import VARIANTS
from counting_interp.models.training.engine import VALIDATION_SEED
from scripts.zoo import ENTRIES, PROVED, proved_name


def test_the_files_are_those_of_the_build_script() -> None:
    assert zoo_names() == sorted([*(entry.name for entry in ENTRIES), *map(proved_name, PROVED)])


@pytest.mark.parametrize("name", zoo_names())
def test_each_says_what_it_is_and_is_as_accurate_as_it_says(name: str) -> None:
    model = CountingTransformer.load(name)
    assert name.startswith(f"{model.config.name}-d{model.config.d}-p{model.config.p}")
    assert model.metadata["zoo"]["why"]
    claimed = model.metadata["accuracy"]
    again = model.accuracy(n=claimed["n_sequences"], sampler=claimed["sampler"], seed=VALIDATION_SEED)
    assert abs(again - claimed["value"]) < 5e-4  # the same sequences, other kernels: a tie may fall the other way


@pytest.mark.parametrize("parent", PROVED)
def test_proved_models_say_where_they_come_from(parent: str) -> None:
    history = CountingTransformer.load(proved_name(parent)).metadata["repair"]
    assert history["parent"] == CountingTransformer.load(parent).metadata["sha256"]
    assert history["verdict"] == "certified"


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_has_a_solved_model(variant: str) -> None:
    accuracies = [
        CountingTransformer.load(name).metadata["accuracy"]["value"]
        for name in zoo_names()
        if name.startswith(f"{variant}-")
    ]
    assert max(accuracies) > 0.99


def test_unknown_names_are_answered_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"the zoo has no 'lin-d1-p1'; it has bos\+sftm-d45-p2"):
        zoo_path("lin-d1-p1")
