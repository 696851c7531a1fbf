"""`interp train`: what it writes, and that neither signals nor kills can spoil it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from models import CountingTransformer, checkpoint
from tests.helpers import ROOT, run_interp

TINY = ("--model", "bos+sftm", "-T", 6, "-L", 4, "-d", 3, "-p", 2, "--sequences", 64, "--validation", 50)


def train(*options: object) -> subprocess.CompletedProcess[str]:
    return run_interp("train", *map(str, (*TINY, *options)))


def test_writes_a_checkpoint_and_snapshots_in_order(tmp_path):
    path = tmp_path / "ckpt.pt"
    done = train("--epochs", 30, "--snapshots", 6, "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (result,) = json.loads(done.stdout)["results"]
    model = CountingTransformer.load(path)
    assert result["accuracy"] == model.metadata["accuracy"]
    assert (result["model"], result["d"], result["step"]) == ("bos+sftm", 3, 60)
    assert checkpoint.load_training_state(path) is None
    snapshots = sorted((tmp_path / "ckpt.snapshots").iterdir())
    steps = [CountingTransformer.load(snapshot).metadata["step"] for snapshot in snapshots]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 60)
    assert len(steps) == 6
    last = CountingTransformer.load(snapshots[-1])
    assert all(torch.equal(a, b) for a, b in zip(last.parameters(), model.parameters(), strict=True))

    refused = train("--epochs", 30, "-o", path)
    assert refused.returncode == 2
    assert "exists; --resume goes on with it" in refused.stderr
    other = train("--epochs", 31, "-o", path, "--resume")
    assert other.returncode == 3
    assert "its epochs is 30, not 31" in other.stderr


def test_of_several_runs_the_best_is_kept(tmp_path):
    best, every = tmp_path / "best.pt", tmp_path / "all.safetensors"
    assert train("--epochs", 20, "--runs", 3, "--seed", 5, "-o", best).returncode == 0
    done = train("--epochs", 20, "--runs", 3, "--seed", 5, "--keep", "all", "-o", every)
    assert len(done.stdout.splitlines()) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"all.seed-{seed}.safetensors" for seed in (5, 6, 7)),
        "best.pt",
    ]
    models = [CountingTransformer.load(tmp_path / f"all.seed-{seed}.safetensors") for seed in (5, 6, 7)]
    accuracies = [model.metadata["accuracy"]["value"] for model in models]
    kept = CountingTransformer.load(best)
    assert kept.metadata["selection"] == {"best_of_seeds": [5, 6, 7], "accuracies": accuracies}
    assert kept.metadata["accuracy"]["value"] == max(accuracies)
    before = best.read_bytes()
    assert train("--epochs", 20, "--runs", 3, "--seed", 5, "-o", best, "--resume").returncode == 0
    assert best.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-d", 0), "d must be between 1 and 4096, got 0"),
        (("--sampler", "magic"), "got 'magic'"),
        (("--epochs", 0), "epochs must be"),
        (("--layers", 3), "n_layers must be 1 or 2, got 3"),
    ],
)
def test_wrong_values_are_named(tmp_path, options, message):
    done = train(*options, "-o", tmp_path / "ckpt.pt")
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


# Importing torch takes seconds, so one process imports everything and forks; each child is a whole `interp train`.
FORKS = """
import os, random, signal, sys
from select import select
import interp.training
from interp.cli import app
from models import CountingConfig, CountingTransformer
from models.training import Recipe, train

path, kills, how, *arguments = sys.argv[1:]
rng = random.Random(0)
train(CountingConfig.parse("bos+sftm", T=6, L=4, d=3, p=2), Recipe(epochs=1, sequences=64, validation=50))

def start():
    ended, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            app(["train", *arguments, "-o", path, "--resume", "--checkpoint-every", "0"])
        except SystemExit as done:
            os._exit(done.code or 0)
    os.close(end)
    return pid, ended

done = loads = graceful = 0
while done < int(kills):
    pid, ended = start()
    finished, _, _ = select([ended], [], [], rng.uniform(0.0, 0.25))
    assert not finished, "the run ended before it was killed often enough: give it more epochs"
    os.kill(pid, getattr(signal, how))
    status = os.waitpid(pid, 0)[1]
    graceful += os.waitstatus_to_exitcode(status) == 130
    os.close(ended)
    done += 1
    if os.path.exists(path):
        CountingTransformer.load(path)
        loads += 1
pid, ended = start()
assert os.waitpid(pid, 0)[1] == 0
print(done, loads, graceful)
"""


def killed_and_resumed(path: Path, kills: int, how: str, *options: object) -> str:
    command = [sys.executable, "-c", FORKS, path, kills, how, *TINY, *options]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "."},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "kills"), [("SIGKILL", 25), ("SIGTERM", 5), ("SIGINT", 5)])
def test_killed_at_any_moment_the_checkpoint_loads_and_the_run_ends_the_same(tmp_path, how, kills):
    whole, broken = tmp_path / "whole.pt", tmp_path / "broken.pt"
    epochs = ("--epochs", 2500 if how == "SIGKILL" else 1500)
    assert train(*epochs, "-o", whole).returncode == 0
    done, loads, graceful = map(int, killed_and_resumed(broken, kills, how, *epochs).split())
    assert done == kills
    assert loads > kills // 2
    assert graceful == 0 if how == "SIGKILL" else graceful > kills // 2  # some come before there is anything to save
    assert whole.read_bytes() == broken.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.pt", "whole.pt"]
