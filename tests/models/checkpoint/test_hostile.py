"""Broken and hostile files: each refused for the right reason, quickly, in little memory, and nothing in it is run."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from counting_interp.models.checkpoint import TrainingState, load
from counting_interp.util.errors import CheckpointError, printable
from tests.helpers import ROOT, small_model
from tests.models.checkpoint.craft import NASTY, ours
from tests.models.checkpoint.hostile import every_file

MEASURE = """
import json, re, sys, time
from pathlib import Path
from counting_interp.models.checkpoint import load
from counting_interp.util.errors import CheckpointError
from counting_interp.models.transformer import CountingTransformer
seconds = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    start = time.process_time()
    try:
        load(path)
    except CheckpointError:
        seconds[path.name] = time.process_time() - start
peak = re.search(r"VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())
print(json.dumps({"seconds": seconds, "megabytes": int(peak[1]) / 1024}))
"""


@pytest.fixture(scope="module")
def marker(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("marker") / "ran"


@pytest.fixture(scope="module")
def files(marker) -> dict[str, tuple[bytes, str]]:
    return every_file(str(marker))


def refusal(path: Path | str) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(printable(str(path)) + ": ")
    assert text.isprintable()
    assert len(text) < 700
    return caught.value.reason


def test_every_file_is_refused_for_its_own_reason(tmp_path, files, marker):
    assert len(files) == 209  # as docs/checkpoints.md says
    wrong = {}
    for name, (data, expected) in files.items():
        path = tmp_path / "file.pt"
        path.write_bytes(data)
        reason = refusal(path)
        if not re.search(expected, reason):
            wrong[name] = reason
    assert wrong == {}
    assert not marker.exists()


@pytest.mark.slow
def test_each_refusal_takes_less_than_a_second_and_all_together_less_than_500_MB(tmp_path, files):
    for i, (data, _) in enumerate(files.values()):
        (tmp_path / f"{i:03}").write_bytes(data)
    large = ours(form="safetensors")[:-1] + bytes(2**26)  # as large as is read at all, and wrong only at its end
    (tmp_path / "large").write_bytes(large[: 2**26])
    state = TrainingState({"m": np.zeros(8 * 10**6)}, {})
    for form in ("pt", "safetensors"):  # and one that is read to its end before its hash fails
        (tmp_path / f"large.{form}").write_bytes(ours(form=form, state=state, sha256="0" * 64))
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    measured = json.loads(done.stdout)
    assert len(measured["seconds"]) == len(files) + 3
    assert max(measured["seconds"].values()) < 1
    assert measured["megabytes"] < 500


def test_what_is_not_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    assert "is a pipe" in refusal(tmp_path / "pipe.pt")
    (tmp_path / "zero.pt").symlink_to("/dev/zero")
    assert "is a device" in refusal(tmp_path / "zero.pt")
    assert "is a device" in refusal("/dev/null")
    assert "is a directory" in refusal(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert "cannot be opened" in refusal(tmp_path / "s")


def test_what_cannot_be_opened(tmp_path, monkeypatch):
    assert "does not exist" in refusal(tmp_path / "nothing.pt")
    (tmp_path / "broken.pt").symlink_to(tmp_path / "gone")
    assert "a link to a file that does not exist" in refusal(tmp_path / "broken.pt")
    (tmp_path / "loop.pt").symlink_to(tmp_path / "loop.pt")
    assert "cannot be opened" in refusal(tmp_path / "loop.pt")
    assert "cannot be opened" in refusal(tmp_path / ("x" * 1000))
    assert "no possible file name" in refusal("with\0null")
    assert "does not exist" in refusal(tmp_path / NASTY[:60])

    def forbidden(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)
    assert "may not be read" in refusal(tmp_path / "secret.pt")


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    with open(tmp_path / "sparse.pt", "wb") as file:
        file.truncate(10**11)
    assert "is 100,000,000,000 bytes long" in refusal(tmp_path / "sparse.pt")


def test_a_link_to_a_good_file_is_followed(tmp_path):
    small_model("lin").save(tmp_path / "good.pt")
    (tmp_path / "link.pt").symlink_to(tmp_path / "good.pt")
    assert load(tmp_path / "link.pt").config.name == "lin"


def test_a_changed_file_loads_only_when_told_to(tmp_path):
    data = ours(form="safetensors")
    path = tmp_path / "changed.safetensors"
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "sha256 does not hold" in refusal(path)
    assert load(path, check_hash=False).config.name == "bos"
