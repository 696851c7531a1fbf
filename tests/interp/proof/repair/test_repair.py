"""Repair: proofs that hold when every sequence is run, runs that go on where they were killed, and what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.interp.proof import prove
from counting_interp.interp.proof.repair import Repair, reopen, write
from counting_interp.interp.proof.repair import run as repairing
from counting_interp.interp.proof.repair.training import Trainer, with_equal_positions
from counting_interp.models import CountingConfig, CountingTransformer, checkpoint
from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.constructions import construct
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.files import OutputError
from tests.helpers import assert_close, small_model
from tests.interp.proof.examples import truth

SIZES = {"T": 4, "L": 3, "d": 8, "p": 12}


def untrained(variant: str, seed: int = 0) -> CountingTransformer:
    return CountingTransformer(CountingConfig.parse(variant, **SIZES, seed=seed))


def cli(*arguments: object):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def short_rounds(monkeypatch):
    monkeypatch.setattr(repairing, "STEPS", 250)
    monkeypatch.setattr(repairing, "PART", 125)


@pytest.mark.parametrize("variant", ["bos", "dot+sftm", "lin"])
def test_a_repaired_model_is_right_on_every_sequence(variant, short_rounds):
    run = Repair(untrained(variant))
    assert not run.certified
    while not run.certified and len(run.rounds) < 12:
        run.advance()
    model = run.model()
    assert run.certified
    assert truth(model).right
    assert prove(model).verdict == "certified"
    assert [entry.number for entry in run.rounds] == list(range(len(run.rounds)))
    assert len(run.open_cells) == 0


def test_an_interrupted_run_goes_on_to_the_same_weights(tmp_path, short_rounds):
    parent = untrained("bos")
    through = Repair(parent, seed=3)
    first = Repair(parent, seed=3)
    for run in (through, first):
        run.advance()
    write(first, tmp_path / "model.pt")
    resumed = reopen(parent, tmp_path / "model.pt")
    if first.certified:
        assert resumed is None
        return
    assert resumed is not None
    for run in (through, resumed):
        run.advance()
    for name, value in through.model().state_dict().items():
        assert torch.equal(value, resumed.model().state_dict()[name])
    assert [entry.proved for entry in through.rounds] == [entry.proved for entry in resumed.rounds]


WRONG: tuple[Any, ...] = (None, "x", -1, 1e300, 2**60, [], True)
BAD_ROUNDS: list[dict[str, Any]] = [
    *({field: value} for field in ("number", "steps", "seconds", "proved", "cells", "wrong") for value in WRONG),
    *({"verdict": verdict} for verdict in (None, 5, "x", "certified")),  # none is certified: it would have ended
    {"cells": 0, "proved": 0, "wrong": 0},
    {"loss": "x"},
    {"margin": "x"},
]
BAD_ROWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flat": lambda array: array.ravel(),
    "other numbers": lambda array: np.full((2, array.shape[1]), 10**9),
    "fractions": lambda array: array.astype(np.float64),
    "wide": lambda array: np.zeros((2, 9), np.int64),
    "unsigned": lambda array: array.astype(np.uint64),
    "millions": lambda array: np.ones((600_000, array.shape[1]), np.int64),
}
BAD_WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flat": lambda array: array.ravel(),
    "another dtype": lambda array: array.astype(np.float64),
    "not finite": lambda array: array * np.inf,
}


def refuses(run: Repair, state: TrainingState, folder: Path) -> None:
    """What a stranger may have written into a state ends in one sentence, not in a traceback some rounds later."""
    best = checkpoint.read(folder / "model.unfinished.pt").model
    checkpoint.save(best, folder / "bad.unfinished.pt", training_state=state)
    with pytest.raises(CheckpointError, match="cannot be resumed"):
        reopen(run.parent, folder / "bad.pt")


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> tuple[Repair, Path]:
    run, folder = Repair(untrained("bos")), tmp_path_factory.mktemp("repair")
    write(run, folder / "model.pt")
    assert reopen(run.parent, folder / "model.pt") is not None
    return run, folder


@pytest.mark.parametrize("wrong", BAD_ROUNDS, ids=str)
def test_rounds_of_an_interrupted_run_are_checked_when_they_are_read(begun, wrong):
    state = begun[0].state()
    state.values["repair"]["rounds"][-1] |= wrong
    refuses(begun[0], state, begun[1])


@pytest.mark.parametrize("values", [{}, {"repair": {"seed": 0, "rounds": []}}, {"repair": {"seed": -1, "rounds": "x"}}])
def test_values_of_an_interrupted_run_are_checked_when_they_are_read(begun, values):
    refuses(begun[0], TrainingState(begun[0].state().arrays, values), begun[1])


@pytest.mark.parametrize(
    ("name", "what"),
    [*product(("found", "bred", "open"), BAD_ROWS), *product(("now.embed.W_E", "now.blocks.0.mlp.b_in"), BAD_WEIGHTS)],
)
def test_arrays_of_an_interrupted_run_are_checked_when_they_are_read(begun, name, what):
    state = begun[0].state()
    state.arrays[name] = (BAD_WEIGHTS if name.startswith("now.") else BAD_ROWS)[what](state.arrays[name])
    if name.endswith("b_in") and what == "flat":
        state.arrays.pop(name)
    refuses(begun[0], state, begun[1])


def test_the_largest_seed_can_be_repaired_with(short_rounds):
    run = Repair(untrained("bos"), seed=2**63 - 1)
    assert run.advance().number == 1


def test_the_best_model_is_kept_not_the_last(short_rounds, monkeypatch):
    run = Repair(construct("rc-bos", T=4, L=3))
    assert run.certified
    monkeypatch.setattr(run, "_train", lambda number: run._now.update({n: 0 * w for n, w in run._now.items()}) or 0.0)
    run._now = dict(run._now)
    run.advance()
    assert not run.certified
    assert run.best.number == 0
    assert prove(run.model()).verdict == "certified"


def test_the_temperature_leaves_the_weights_alone():
    weights = untrained("dot").state_dict()
    trainer = Trainer(untrained("dot").config, weights, batch_size=8, batches=1, parts=1, temperature=4.0)
    for name, value in trainer.weights().items():
        assert_close(value, weights[name], 1e-6)
    assert repairing.temperature(5.0) == 1
    assert repairing.temperature(-1e9) == repairing.HOTTEST


def test_matrices_shrink_only_after_a_part_whose_loss_is_small_enough():
    config, tokens = untrained("dot+sftm").config, torch.zeros(8, 3, dtype=torch.long)
    weights = untrained("dot+sftm").state_dict()

    def trained(**decay: float) -> dict[str, torch.Tensor]:
        trainer = Trainer(config, weights, batch_size=8, batches=1, parts=1, **decay)
        assert trainer.train(tokens) > 0.01
        return trainer.weights()

    plain, never = trained(), trained(decay=0.5, decay_below=0.01)
    always = trained(decay=0.5, decay_below=1e9)
    for name, value in plain.items():
        assert torch.equal(never[name], value)
        assert_close(always[name], value * (0.5 if value.ndim == 2 else 1), 1e-6)


def test_rounds_are_compared_by_shares_of_their_cells():
    """Once its positions are alike, a `lin` model has a tenth of the cells: more of them proved is nearer all the
    same."""
    before = repairing.Round(0, 0, 0.0, None, "refuted", proved=2000, cells=3200, wrong=600, margin=-1.0)
    after = repairing.Round(1, 9, 1.0, 0.1, "refuted", proved=300, cells=320, wrong=20, margin=-1.0)
    assert after.merit > before.merit


def test_constant_mixers_are_brought_to_the_nearest_with_equal_positions():
    weights = {"blocks.0.attn.A": torch.tensor([[1.0, 2.0], [4.0, 3.0]]), "other": torch.ones(2, 2)}
    nearest = with_equal_positions(weights)
    assert nearest["blocks.0.attn.A"].tolist() == [[2, 3], [3, 2]]
    assert nearest["other"] is weights["other"]


@pytest.mark.parametrize("model", [small_model("bos", 2), small_model("dot+gelu")])
def test_models_without_a_general_proof_are_refused(model):
    with pytest.raises(InterpError, match="only one-layer models of the paper's six variants"):
        Repair(model)


def test_the_command_writes_a_proved_checkpoint_with_its_history(tmp_path, short_rounds):
    parent, proved = tmp_path / "parent.pt", tmp_path / "proved.safetensors"
    untrained("bos").save(parent)
    result = cli("repair", parent, "-o", proved)
    assert result.exit_code == 0, result.output
    assert "certified after" in result.stdout
    assert "moved" in result.stdout
    found = checkpoint.read(proved)
    assert found.training_state is None
    history = found.model.metadata["repair"]
    assert history["parent"] == checkpoint.load(parent).metadata["sha256"]
    assert history["verdict"] == "certified"
    assert history["steps"] > 0
    assert found.model.metadata["accuracy"]["value"] == 1
    assert cli("prove", proved, "--certificate", tmp_path / "proof.json").exit_code == 0
    assert history["certificate"] == json.loads((tmp_path / "proof.json").read_text())["sha256"]
    assert (tmp_path / "proved.certificate.json").read_text() == (tmp_path / "proof.json").read_text()
    assert cli("check", tmp_path / "proved.certificate.json", proved).exit_code == 0
    assert not list(tmp_path.glob("*.unfinished*"))
    assert isinstance(cli("repair", parent, "-o", proved).exception, OutputError)
    assert "certified before, and its certificate holds" in cli("repair", parent, "-o", proved, "--resume").stdout
    other = tmp_path / "other.pt"
    untrained("bos", seed=1).save(other)
    for file, output in ((other, proved), (proved, parent)):  # neither is a repair of the file
        assert isinstance(cli("repair", file, "-o", output, "--resume").exception, CheckpointError)


def test_a_finished_repair_is_believed_only_with_its_certificate(tmp_path):
    parent, proved = tmp_path / "parent.pt", tmp_path / "proved.safetensors"
    untrained("bos").save(parent)
    assert cli("repair", parent, "-o", proved).exit_code == 0
    beside = tmp_path / "proved.certificate.json"
    beside.write_text(beside.read_text().replace('"sha256":"', '"sha256":"0', 1))
    assert "does not hold" in str(cli("repair", parent, "-o", proved, "--resume").exception)
    beside.unlink()
    assert "does not hold" in str(cli("repair", parent, "-o", proved, "--resume").exception)


def test_without_a_proof_the_open_cells_are_listed_and_the_exit_code_is_1(tmp_path):
    parent, output = tmp_path / "parent.pt", tmp_path / "best.pt"
    untrained("bos").save(parent)
    result = cli("repair", parent, "-o", output, "--time", 0.001)
    assert result.exit_code == 1
    assert "open      count 1: token" in result.stdout
    assert not output.exists()
    assert "advice    more time" in result.stdout
    assert checkpoint.read(tmp_path / "best.unfinished.pt").training_state is not None
    assert isinstance(cli("repair", parent, "-o", output).exception, OutputError)
    result = cli("repair", parent, "-o", output, "--time", 0.001, "--resume", "--json")
    (entry,) = json.loads(result.stdout)["results"]
    assert entry["repair"]["verdict"] == "refuted"
    assert entry["before"]["label"] == "unsolved"


def test_training_until_proved(tmp_path, short_rounds):
    sizes = [argument for name, value in SIZES.items() for argument in (f"-{name}", value)]
    options = ["--model", "bos", *sizes, "--epochs", 1, "--sequences", 320, "--validation", 32, "--until-proved"]
    result = cli("train", "-o", tmp_path / "m.pt", *options)
    assert result.exit_code == 0, result.output
    assert prove(checkpoint.load(tmp_path / "m.proved.pt")).verdict == "certified"
    assert "m.proved.pt: certified" in result.stdout
