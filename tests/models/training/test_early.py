"""The steps of the first epoch: those that the run itself makes, which is left as it was."""

from __future__ import annotations

import pytest
import torch

from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe, Run
from counting_interp.models.training.record import Recorder
from counting_interp.models.training.run import first_steps, snapshot_steps

RECIPE = Recipe(epochs=2, sequences=10 * 16, batch_size=16, validation=40)


def config(name: str) -> CountingConfig:
    return CountingConfig.parse(name, T=6, L=4, d=4, p=2, seed=3)


def assert_same_weights(one, other) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("name", ["bos+sftm", "bos+sftm+norm"])  # compiled, and by autograd
def test_a_first_step_is_a_step_of_the_run(name):
    run = Run(config(name), RECIPE)
    models = list(first_steps(run, [0, 1, 4, 9]))
    assert [model.metadata["step"] for model in models] == [0, 1, 4, 9]
    assert_same_weights(models[0], Run(config(name), RECIPE).model())
    for model, steps in zip(models[1:], (1, 4, 9), strict=True):
        short = Run(config(name), Recipe(epochs=1, sequences=16 * steps, batch_size=16, validation=40))
        short.advance()  # an epoch of so many steps, on the sequences with which the longer one begins
        assert_same_weights(model, short.model())
        assert model.metadata["accuracy"] == short.model().metadata["accuracy"]
    untouched = Run(config(name), RECIPE)
    for each in (run, untouched):
        each.advance()
    assert_same_weights(run.model(), untouched.model())
    assert run.losses == untouched.losses


def test_steps_outside_the_first_epoch_are_refused():
    run = Run(config("bos+sftm"), RECIPE)
    with pytest.raises(ValueError, match=r"before the end of the first epoch, got \[10\]"):
        list(first_steps(run, [10]))


def test_snapshots_are_log_spaced_in_steps_and_end_with_epochs():
    steps = snapshot_steps(Recipe(), 30)
    assert steps[0] == 0
    assert steps[-1] == 500 * 313
    assert 12 <= sum(step < 313 for step in steps) <= 16
    assert all(step % 313 == 0 for step in steps if step > 313)


def test_snapshots_of_a_run_are_files_in_the_order_of_their_steps(tmp_path):
    run = Run(config("bos+sftm"), RECIPE)
    recorder = Recorder(tmp_path / "run.pt", snapshots=6)
    recorder.record(run)
    while not run.finished:
        run.advance()
        recorder.record(run)
    names = [f"step-{step:02d}.pt" for step in snapshot_steps(RECIPE, 6)]
    assert sorted(path.name for path in (tmp_path / "run.snapshots").iterdir()) == names
    assert sum(step < 10 for step in snapshot_steps(RECIPE, 6)) > 2
