"""`interp train`: what it writes, and that neither signals nor kills can spoil it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch

from counting_interp.models import CountingTransformer
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
    snapshots = sorted((tmp_path / "ckpt.snapshots").iterdir())
    steps = [CountingTransformer.load(snapshot).metadata["step"] for snapshot in snapshots]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 60)
    assert len(steps) == 6
    last = CountingTransformer.load(snapshots[-1])
    assert all(torch.equal(a, b) for a, b in zip(last.parameters(), model.parameters(), strict=True))

    refused = train("--epochs", 30, "-o", path)
    assert refused.returncode == 2
    assert "exists; --resume continues it" in refused.stderr
    other = train("-d", 4, "-o", path, "--resume")
    assert other.returncode == 3
    assert "its d is 3, not 4" in other.stderr


def test_of_several_runs_the_best_is_kept(tmp_path):
    best, every = tmp_path / "best.pt", tmp_path / "all.safetensors"
    assert train("--epochs", 20, "--runs", 3, "--seed", 5, "-o", best).returncode == 0
    done = train("--epochs", 20, "--runs", 3, "--seed", 5, "--all-runs", "-o", every)
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
    other = train("--epochs", 30, "--runs", 3, "--seed", 5, "-o", best, "--resume")
    assert (other.returncode, best.read_bytes()) == (3, before)
    assert "leave --runs out to continue it alone" in other.stderr
    extended = run_interp("train", "-o", str(best), "--epochs", "30", "--resume")
    assert extended.returncode == 0, extended.stderr
    now = CountingTransformer.load(best)
    assert now.metadata["step"] == 60
    assert now.metadata["selection"] == kept.metadata["selection"]


def test_blocks_beyond_the_paper_s_are_trained_together_and_resumed_by_name(tmp_path):
    path = tmp_path / "ckpt.pt"
    block = ("--model", "bos+sftm+values+3heads+norm", "--epochs", 2, "--runs", 2, "--all-runs", "-o", path)
    done = train(*block, "--weight-decay", 0.01, "--schedule", "cosine")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    model = CountingTransformer.load(tmp_path / "ckpt.seed-1.pt")
    assert (model.config.name, model.config.n_heads) == ("bos+sftm+values+3heads+norm", 3)
    assert (model.metadata["training"]["weight_decay"], model.metadata["training"]["schedule"]) == (0.01, "cosine")
    other = train(*block, "--resume", "--weight-decay", 0.02)
    assert other.returncode == 3
    assert "its weight_decay is 0.01, not 0.02" in other.stderr


def test_a_run_is_resumed_and_extended_without_its_options_as_inspect_advises(tmp_path, interp):
    """The command that `interp inspect` prints is the command that is run."""
    whole, extended = tmp_path / "whole.pt", tmp_path / "a name.pt"
    for path, epochs in ((whole, 8), (extended, 4)):
        assert interp("train", *TINY, "--epochs", epochs, "--snapshots", 3, "-o", path)[0] == 0
    _, out, _ = interp("inspect", extended, "-n", 10)
    advice = re.search(r"finished after 4 epochs; `interp (.*)` would add", out)
    assert advice is not None, out
    code, _, err = interp(*shlex.split(advice[1]))
    assert code == 0, err
    assert extended.read_bytes() == whole.read_bytes()
    assert len(list((tmp_path / "a name.snapshots").iterdir())) == 4
    assert interp("train", "-o", whole, "--resume")[0] == 0
    code, _, err = interp("train", "-o", tmp_path / "new.pt", "--resume", "-d", 3)
    assert (code, err) == (2, "interp: a new run needs --model, -p\n")
    code, _, err = interp("train", *TINY, "-o", tmp_path / "x.txt")
    assert code == 2
    assert "does not end like a checkpoint" in err


def test_the_best_epoch_is_spoken_of_and_kept(tmp_path, interp):
    """A rate that is far too high: accuracy goes up and down."""
    wild = (*TINY, "--epochs", 9, "--lr", 0.5)
    last, best = tmp_path / "last.pt", tmp_path / "best.pt"
    code, _, err = interp("train", *wild, "-o", last)
    assert code == 0
    facts = CountingTransformer.load(last).metadata
    lost = facts["best_accuracy"]["value"] - facts["accuracy"]["value"]  # 0 here where other bits end at their best
    spoken = re.search(r"epoch \d had .* % of positions right, this model has .*; with --keep-best", err)
    assert (spoken is not None) == (lost >= 0.005)
    code, out, err = interp("train", *wild, "-o", best, "--keep-best")
    assert (code, err) == (0, "")
    assert (f"epoch {facts['best_accuracy']['epoch']} of 9 is kept" in out) == (lost > 0)
    assert CountingTransformer.load(best).metadata["accuracy"]["value"] == facts["best_accuracy"]["value"]


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
# It is first left alone, which gives the time it takes and the file to compare with, then killed at random moments.
FORKS = """
import os, random, signal, sys, time, traceback
from pathlib import Path
from select import select
import torch
import counting_interp.interp.cli.train_runs
from counting_interp.interp.cli import main
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe, train

folder, kills, how, *arguments = sys.argv[1:]
folder, rng = Path(folder), random.Random(0)
torch.set_num_threads(1)
train(CountingConfig.parse("bos+sftm", T=6, L=4, d=3, p=2), Recipe(epochs=1, sequences=64, validation=50))

def start(path):
    ended, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sys.argv = ["interp", "train", *arguments, "-o", str(path), "--resume", "--checkpoint-every", "0"]
            main()
            os._exit(0)
        except SystemExit as done:
            os._exit(done.code or 0)
        except KeyboardInterrupt:  # before `main` could catch it: Python's own way out
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(end)
    return pid, ended

def code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

began = time.monotonic()
whole, broken = folder / "whole.pt", folder / "broken.pt"
assert code(start(whole)[0]) == 0
duration = time.monotonic() - began
done = loads = graceful = runs = 0
while done < int(kills) or not loads:
    pid, ended = start(broken)
    finished, _, _ = select([ended], [], [], rng.uniform(0.0, duration / 2))
    os.close(ended)
    os.kill(pid, getattr(signal, how))
    result = code(pid)
    if result == 0:
        assert broken.read_bytes() == whole.read_bytes()
        broken.unlink()
        runs += 1
        continue
    assert result in (130, -getattr(signal, how)), result
    graceful += result == 130
    done += 1
    if broken.exists():
        CountingTransformer.load(broken)
        loads += 1
assert code(start(broken)[0]) == 0
assert broken.read_bytes() == whole.read_bytes()
assert sorted(path.name for path in folder.iterdir()) == ["broken.pt", "whole.pt"]
print(done, loads, graceful, runs)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "kills"), [("SIGKILL", 25), ("SIGTERM", 4), ("SIGINT", 4), ("SIGHUP", 2)])
def test_killed_at_any_moment_the_checkpoint_loads_and_the_run_ends_the_same(tmp_path, how, kills):
    command = [*map(str, (sys.executable, "-c", FORKS, tmp_path, kills, how, *TINY, "--epochs", 60))]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    killed, loads, graceful, _ = map(int, done.stdout.splitlines()[-1].split())
    assert killed >= kills
    assert loads > 0
    assert graceful == 0 if how == "SIGKILL" else graceful > 0


def test_snapshots_of_another_run_are_not_replaced(interp, tmp_path):
    first = ("train", *TINY, "--epochs", 1, "--snapshots", 2)
    assert interp(*first, "-o", tmp_path / "a.pt")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "a.snapshots").iterdir()}
    other = (*first, "--seed", 5, "-o", tmp_path / "a.safetensors")
    code, _, err = interp(*other)
    assert (code, {path: path.read_bytes() for path in (tmp_path / "a.snapshots").iterdir()}) == (2, before)
    assert "a.snapshots holds snapshots of another run; give another -o, or --overwrite" in err
    assert interp(*other, "--overwrite")[0] == 0
    assert {path.suffix for path in (tmp_path / "a.snapshots").iterdir()} == {".safetensors"}


@pytest.mark.parametrize("name", ["a.snapshots/step-000.pt", "a.seed-1.pt", "a.proved.pt"])
def test_files_beside_the_output_are_not_written_through_links(interp, tmp_path, name):
    (tmp_path / "a.snapshots").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / name).symlink_to(tmp_path / "mine")
    options = ("--epochs", 1, "--snapshots", 2, "--runs", 1 + ("seed" in name), "--overwrite")
    until_proved = ["--until-proved"] * ("proved" in name)
    code, _, err = interp("train", *TINY, *options, *until_proved, "-o", tmp_path / "a.pt")
    assert code == 2
    assert "is a link" in err
    assert (tmp_path / "mine").read_text() == "mine"
