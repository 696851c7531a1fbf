"""Every command on files whose hash holds, whatever else they say: a result, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.util.errors import InterpError
from tests.helpers import small_model
from tests.models.checkpoint.strategies import (
    CONFIG,
    FORMS,
    RECIPE,
    any_metadata,
    file_with,
    right_metadata,
    training_states,
)

SIZES = ["-T", CONFIG.T, "-L", CONFIG.L, "-d", CONFIG.d, "-p", CONFIG.p]
SCALE = ["--epochs", RECIPE.epochs, "--sequences", RECIPE.sequences, "--batch-size", RECIPE.batch_size]
COMMANDS: dict[str, list[Any]] = {
    "inspect": ["inspect", "FILE", "-n", 5],
    "inspect --json": ["inspect", "FILE", "-n", 5, "--json"],
    "classify": ["classify", "FILE", "--quick"],
    "classify --json": ["classify", "FILE", "--quick", "--json"],
    "prove": ["prove", "FILE", "--time", 0.05],
    "prove --json": ["prove", "FILE", "--time", 0.05, "--json"],
    "probe": ["probe", "overlap", "FILE", "--json"],
    "figures": ["figures", "FILE", "--only", "overlap", "--format", "html", "-o", "OUT"],
    "report": ["report", "FILE", "-o", "OUT.html"],
    "train --resume": [
        *("train", "--resume", "-o", "FILE", "--model", CONFIG.name, "--json"),
        *(*SIZES, *SCALE, "--validation", RECIPE.validation),
    ],
}
SLOW = [HealthCheck.too_slow]  # a busy machine is no fault
EXAMPLES = {"figures": 2, "report": 1, "train --resume": 15, "classify": 5, "classify --json": 5}


def survives(arguments: list[Any], path: Path) -> int | None:
    """The exit code of a command on a file; None for an error that `main` prints as one line. Anything else fails."""
    names = {"FILE": path, "OUT": path.with_name("out"), "OUT.html": path.with_name("out.html")}
    done = CliRunner().invoke(app, [str(names.get(str(word), word)) for word in arguments])
    if isinstance(done.exception, InterpError):
        assert str(done.exception).isprintable()
        return None
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 1, 3), done.output
    if "--json" in arguments and done.exit_code in (0, 1):
        json.loads(done.stdout)
    return done.exit_code


@pytest.mark.parametrize("command", COMMANDS)
def test_metadata_that_fit_the_schema_are_survived(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("fuzz")

    @settings(
        max_examples=EXAMPLES.get(command, 10),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=SLOW,
    )
    @given(any_metadata if command == "train --resume" else right_metadata, training_states, FORMS)
    def check(metadata, state, form) -> None:
        path = folder / f"file.{form}"
        path.write_bytes(file_with(metadata, state if command == "train --resume" else None, form))
        for old in folder.glob("out*"):
            if old.is_file():
                old.unlink()
        survives(COMMANDS[command], path)

    check()


@pytest.mark.parametrize(
    ("command", "scale"),
    [
        ("inspect --json", 1e38),
        ("classify --json", 1e19),
        ("classify --json", 1e38),
        ("prove --json", 1e38),
        ("report", 1e38),
        ("report", 3e12),
        ("every figure", 1e38),
        ("every figure", 3e12),
    ],
)
def test_weights_that_overflow_are_survived(tmp_path, command, scale):
    """Numbers of float32 whose products are none: a faithful result, or a sentence of ours. At 3e12 the pre-activations
    are finite still, and the logits are not."""
    model = small_model("bos+sftm", T=4, L=3, d=3, p=2, dtype="float32")
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.sign() * scale)
    model.save(tmp_path / "huge.pt")
    arguments = ["figures", "FILE", "--format", "html", "-o", "OUT"] if command == "every figure" else COMMANDS[command]
    assert survives(arguments, tmp_path / "huge.pt") in (0, 1, 3)


def test_a_refused_file_loses_none_of_the_others(tmp_path):
    small_model("lin").save(tmp_path / "b-good.pt")
    (tmp_path / "a-bad.pt").write_bytes(b"PK\3\4")
    (tmp_path / "c-bad.pt").write_bytes(file_with({"assumed": 5}, None, "pt"))
    for command in ("inspect --json", "classify --json", "prove --json", "probe"):
        words = [tmp_path if word == "FILE" else word for word in COMMANDS[command]]
        done = CliRunner().invoke(app, list(map(str, words)))
        assert done.exit_code == 3
        results = json.loads(done.stdout)["results"]
        assert ["error" in result for result in results] == [True, False, True]
