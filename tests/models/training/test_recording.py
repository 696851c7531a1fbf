"""Resuming reads a file: what is no training run, or one that does not fit, is refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models import CountingConfig, checkpoint
from models.checkpoint import TrainingState
from models.errors import CheckpointError
from models.training import Recipe, Run
from models.training.recording import reopen

CONFIG = CountingConfig.parse("bos", T=5, L=3, d=3, p=2)
RECIPE = Recipe(epochs=3, sequences=40, batch_size=20, validation=10)


@pytest.fixture(scope="module")
def stopped() -> Run:
    run = Run(CONFIG, RECIPE)
    run.advance()
    return run


def changed(arrays: dict[str, np.ndarray], values: dict[str, Any], **changes: Any) -> TrainingState:
    """A state with some arrays or values replaced; None takes one out."""
    merged = {**arrays, **{name: change for name, change in changes.items() if name in arrays}}
    facts = {**values, **{name: change for name, change in changes.items() if name not in arrays}}
    return TrainingState(
        {name: array for name, array in merged.items() if array is not None},
        {name: value for name, value in facts.items() if value is not None},
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"losses": None}, "no losses and accuracies"),
        ({"accuracies": None}, "no losses and accuracies"),
        ({"losses": np.zeros((1, 1))}, "no losses and accuracies"),
        ({"losses": np.zeros(2)}, "no losses and accuracies"),
        ({"losses": np.array([True])}, "no losses and accuracies"),
        ({"losses": np.zeros(3), "accuracies": np.zeros(3)}, "no losses and accuracies"),  # then it would be finished
        ({"accuracies": np.array([np.nan])}, "accuracies that are none"),
        ({"accuracies": np.array([7.0])}, "accuracies that are none"),
        ({"first_moment": None}, "no first_moment that fits"),
        ({"second_moment": np.zeros((2, 2))}, "no second_moment that fits"),
        ({"recipe": None}, "holds no training run"),
        ({"recipe": [1]}, "holds no training run"),
        ({"recipe": {"epochs": "3"}}, "holds no training run"),
        ({"recipe": {"unknown": 1}}, "holds no training run"),
        ({"recipe": {**RECIPE.to_dict(), "sampler": ["paper"]}}, "holds no training run"),
    ],
)
def test_a_state_that_is_none_is_refused(tmp_path, stopped, changes, reason):
    state = stopped.state()
    path = tmp_path / "run.pt"
    checkpoint.save(stopped.model(), path, training_state=changed(state.arrays, state.values, **changes))
    with pytest.raises(CheckpointError, match=reason):
        reopen(path, CONFIG)


@pytest.mark.parametrize("field", ["step", "accuracy", "best_accuracy", "training"])
def test_a_finished_file_that_does_not_say_how_it_ended_is_no_run(tmp_path, stopped, field):
    model = stopped.model()
    checkpoint.save(model, tmp_path / "run.pt")
    assert reopen(tmp_path / "run.pt", CONFIG) is None
    del model.metadata[field]
    checkpoint.save(model, tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match="holds no training run"):
        reopen(tmp_path / "run.pt", CONFIG)
