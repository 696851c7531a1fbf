"""A run on disk: a file that is no training run, or does not fit, is refused in one sentence; and snapshots.

The first steps of a run, for its snapshots, are those that the run itself makes, and do not change it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from counting_interp.models import CountingConfig, checkpoint
from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.training import Recipe, Run
from counting_interp.models.training.record import Recorder, reopen
from counting_interp.models.training.run import first_steps, snapshot_steps
from counting_interp.util.errors import CheckpointError
from counting_interp.util.files import OutputError

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
        ({"losses": np.zeros(4), "accuracies": np.zeros(4)}, "no losses and accuracies"),  # more than there are epochs
        ({"accuracies": np.array([np.nan])}, r"accuracies outside \[0, 1\]"),
        ({"accuracies": np.array([7.0])}, r"accuracies outside \[0, 1\]"),
        ({"first_moment": None}, "no first_moment that fits"),
        ({"second_moment": np.zeros((2, 2))}, "no second_moment that fits"),
        ({"best_epoch": 1}, "lacks"),  # and no weights of the last epoch
        ({"best_epoch": 7}, "holds no training run"),
        ({"best_epoch": "1"}, "holds no training run"),
        ({"snapshots": -1}, "holds no training run"),
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


@pytest.mark.parametrize("variant", ["bos", "dot+sftm+values"])  # the two engines
@pytest.mark.parametrize("keep_best", [False, True])
def test_a_finished_run_that_is_extended_ends_with_the_bytes_of_a_longer_one(tmp_path, variant, keep_best):
    config = CountingConfig.parse(variant, T=5, L=3, d=4, p=3)
    for name, epochs in (("whole", 6), ("extended", 3)):
        finish(Run(config, replace(RECIPE, epochs=epochs), keep_best=keep_best), tmp_path / f"{name}.pt")
    assert reopen(tmp_path / "extended.pt", config, replace(RECIPE, epochs=3)) is None
    extended = reopen(tmp_path / "extended.pt", config, replace(RECIPE, epochs=6))
    assert extended is not None
    assert extended.epoch == 3
    finish(extended, tmp_path / "extended.pt")
    assert (tmp_path / "extended.pt").read_bytes() == (tmp_path / "whole.pt").read_bytes()


@pytest.mark.parametrize(
    ("recipe", "epochs", "reason"),
    [(RECIPE, 2, "has 3 epochs already"), (replace(RECIPE, schedule="cosine"), 6, "falls to 0 over its 3 epochs")],
)
def test_what_would_not_be_the_same_run_is_not_extended(tmp_path, recipe, epochs, reason):
    finish(Run(CONFIG, recipe), tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match=reason):
        reopen(tmp_path / "run.pt", CONFIG, replace(recipe, epochs=epochs))


def test_a_file_without_its_state_is_not_extended(tmp_path, stopped):
    checkpoint.save(stopped.model(), tmp_path / "run.pt")
    with pytest.raises(CheckpointError, match="without its training state"):
        reopen(tmp_path / "run.pt", CONFIG, replace(RECIPE, epochs=6))


def test_the_best_epoch_is_kept_with_its_own_accuracy(tmp_path):
    run = Run(CONFIG, replace(RECIPE, epochs=100, lr=0.5), keep_best=True)  # with such a rate, up and down
    weights: list[dict[str, torch.Tensor]] = []
    while not weights or run.accuracies[-1] == max(run.accuracies):
        run.advance()
        weights.append(run.engine.state_dict())
    best = run.accuracies.index(max(run.accuracies))
    Recorder(tmp_path / "run.pt").write(run)
    kept = checkpoint.load(tmp_path / "run.pt")
    assert all(torch.equal(weight, weights[best][name]) for name, weight in kept.state_dict().items())
    assert kept.metadata["accuracy"]["value"] == max(run.accuracies)
    assert kept.metadata["step"] == (best + 1) * 2
    assert kept.metadata["last_accuracy"]["value"] == run.accuracies[-1]


def finish(run: Run, path: Path) -> None:
    recorder = Recorder(path)
    while not run.finished:
        run.advance()
    recorder.write(run)


def test_snapshots_of_another_run_are_not_replaced_unless_asked(tmp_path):
    path = tmp_path / "run.pt"
    Recorder(path, snapshots=3).record(Run(CONFIG, RECIPE))
    before = {file: file.read_bytes() for file in (tmp_path / "run.snapshots").iterdir()}
    assert before
    Recorder(path, snapshots=3).record(Run(CONFIG, RECIPE))  # the same run once more, as after a kill
    Recorder(path, snapshots=3).record(Run(CONFIG, replace(RECIPE, epochs=4)))
    other = Run(CONFIG.replace(seed=1), RECIPE)
    with pytest.raises(OutputError, match="exists and belongs to another run; --overwrite replaces it"):
        Recorder(path, snapshots=3).record(other)
    kept = {file: file.read_bytes() for file in before}
    assert [checkpoint.load(file).config.seed for file in kept] == [0] * len(kept)
    Recorder(path, snapshots=3, overwrite=True).record(other)
    assert [checkpoint.load(file).config.seed for file in kept] == [1] * len(kept)


def test_a_snapshot_is_not_written_through_a_link(tmp_path):
    path = tmp_path / "run.pt"
    Recorder(path, snapshots=3).record(Run(CONFIG, RECIPE))
    first = min((tmp_path / "run.snapshots").iterdir())
    first.unlink()
    (tmp_path / "mine").write_text("mine")
    first.symlink_to(tmp_path / "mine")
    with pytest.raises(OutputError, match="is a link"):
        Recorder(path, snapshots=3, overwrite=True).record(Run(CONFIG, RECIPE))
    assert (tmp_path / "mine").read_text() == "mine"


TEN_STEPS = Recipe(epochs=2, sequences=10 * 16, batch_size=16, validation=40)


def small_config(name: str) -> CountingConfig:
    return CountingConfig.parse(name, T=6, L=4, d=4, p=2, seed=3)


def assert_same_weights(first, second) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("name", ["bos+sftm", "bos+sftm+norm"])  # compiled, and by autograd
def test_a_first_step_is_a_step_of_the_run(name):
    run = Run(small_config(name), TEN_STEPS)
    models = list(first_steps(run, [0, 1, 4, 9]))
    assert [model.metadata["step"] for model in models] == [0, 1, 4, 9]
    assert_same_weights(models[0], Run(small_config(name), TEN_STEPS).model())
    for model, steps in zip(models[1:], (1, 4, 9), strict=True):
        short = Run(small_config(name), Recipe(epochs=1, sequences=16 * steps, batch_size=16, validation=40))
        short.advance()  # an epoch of so many steps, on the sequences with which the longer one begins
        assert_same_weights(model, short.model())
        assert model.metadata["accuracy"] == short.model().metadata["accuracy"]
    untouched = Run(small_config(name), TEN_STEPS)
    for each in (run, untouched):
        each.advance()
    assert_same_weights(run.model(), untouched.model())
    assert run.losses == untouched.losses


def test_steps_outside_the_first_epoch_are_refused():
    run = Run(small_config("bos+sftm"), TEN_STEPS)
    with pytest.raises(ValueError, match=r"before the end of the first epoch, got \[10\]"):
        list(first_steps(run, [10]))


def test_snapshots_are_log_spaced_in_steps_and_end_with_epochs():
    steps = snapshot_steps(Recipe(), 30)
    assert steps[0] == 0
    assert steps[-1] == 500 * 313
    assert 12 <= sum(step < 313 for step in steps) <= 16
    assert all(step % 313 == 0 for step in steps if step > 313)


def test_snapshots_of_a_run_are_files_in_the_order_of_their_steps(tmp_path):
    run = Run(small_config("bos+sftm"), TEN_STEPS)
    recorder = Recorder(tmp_path / "run.pt", snapshots=6)
    recorder.record(run)
    while not run.finished:
        run.advance()
        recorder.record(run)
    names = [f"step-{step:02d}.pt" for step in snapshot_steps(TEN_STEPS, 6)]
    assert sorted(path.name for path in (tmp_path / "run.snapshots").iterdir()) == names
    assert sum(step < 10 for step in snapshot_steps(TEN_STEPS, 6)) > 2
