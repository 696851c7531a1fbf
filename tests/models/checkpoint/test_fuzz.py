"""A good file with one byte changed, or cut anywhere: it loads bit for bit as before, or is refused. Nothing else.

And files made of the pieces of both formats: read or refused.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from counting_interp.models.checkpoint import TrainingState, read, save
from counting_interp.models.checkpoint.contents import check_metadata
from counting_interp.util.errors import CheckpointError
from tests.helpers import small_model
from tests.models.checkpoint.strategies import EVERY_FILE

ENDINGS = (".pt", ".safetensors")


def fingerprint(path) -> str:
    """Everything that came out of a file."""
    checkpoint = read(path)
    sha = hashlib.sha256(repr((checkpoint.model.config, sorted(checkpoint.model.metadata.items()))).encode())
    for name, tensor in checkpoint.model.state_dict().items():
        sha.update(name.encode() + tensor.numpy().tobytes())
    state = checkpoint.training_state
    assert state is not None
    for name, array in sorted(state.arrays.items()):
        sha.update(name.encode() + array.tobytes())
    sha.update(repr(state.values).encode())
    return sha.hexdigest()


@pytest.fixture(params=ENDINGS)
def good(request, tmp_path):
    model = small_model("bos", T=3, L=2, d=2, p=1, dtype="float32")
    model.metadata = {"seed": 3, "accuracy": {"value": 0.5}}
    path = tmp_path / f"good{request.param}"
    save(model, path, training_state=TrainingState({"m": np.arange(3.0)}, {"epoch": 1}))
    return path


def outcomes(good, variants) -> tuple[int, int]:
    """How many of these bytes loaded, each exactly as the original, and how many were refused."""
    expected = fingerprint(good)
    path = good.with_name("changed")
    loaded = refused = 0
    for data in variants:
        path.write_bytes(data)
        try:
            assert fingerprint(path) == expected
            loaded += 1
        except CheckpointError:
            refused += 1
    return loaded, refused


def test_one_changed_bit(good):
    data = good.read_bytes()
    rng = random.Random(0)
    offsets = rng.sample(range(len(data)), 400)
    loaded, refused = outcomes(
        good, (data[:i] + bytes([data[i] ^ 1 << rng.randrange(8)]) + data[i + 1 :] for i in offsets)
    )
    assert refused > 150
    if good.suffix == ".safetensors":
        assert loaded < 20  # the padding of the header carries nothing; everything else does


def test_cut_anywhere(good):
    data = good.read_bytes()
    lengths = [*range(0, len(data) - 30, 11), *range(len(data) - 30, len(data))]
    assert outcomes(good, (data[:length] for length in lengths)) == (0, len(lengths))


def test_pieces_overwritten_moved_and_repeated(good):
    data = good.read_bytes()
    rng = random.Random(1)

    def mangled():
        a, b = sorted(rng.sample(range(len(data)), 2))
        return rng.choice(
            [
                data[:a] + rng.randbytes(b - a) + data[b:],
                data[:a] + data[b:],
                data[:b] + data[a:],
                data[:a] + bytes(b - a) + data[b:],
                data[a:b] + data[:a] + data[b:],
            ]
        )

    _, refused = outcomes(good, (mangled() for _ in range(150)))
    assert refused >= 140


@pytest.mark.parametrize("kind", EVERY_FILE)
def test_whatever_the_bytes_they_are_read_or_refused(tmp_path_factory, kind):
    """Longer: `python -m benchmarks.fuzz`."""
    path = tmp_path_factory.mktemp("fuzz") / "file"

    @settings(
        max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(EVERY_FILE[kind])
    def check(build) -> None:
        path.write_bytes(build())
        try:
            check_metadata(read(path).model.metadata | {"format_version": 1, "config": {}})
        except CheckpointError as error:
            texts.append(str(error))

    texts: list[str] = []

    check()
    assert all(text.isprintable() and len(text) < 700 for text in texts)
