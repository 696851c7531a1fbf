"""Checkpoints read without torch are what torch reads."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import pytest
import torch

from counting_interp.interp.proof.checker.weights import Unreadable, digest, read
from counting_interp.models import checkpoint
from counting_interp.models.config import VARIANTS
from tests.helpers import small_model


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_formats_give_the_exact_weights_and_their_hash(tmp_path, variant, ending, dtype):
    model = small_model(variant, dtype=dtype)
    path = tmp_path / f"model.{ending}"
    model.save(path)
    tensors, config = read(path)
    assert config == model.config.to_dict()
    assert digest(tensors) == checkpoint.load(path).metadata["sha256"]
    for name, tensor in model.state_dict().items():
        numbers, bits = tensors[name].integers()
        assert [n / 2**bits for n in numbers] == tensor.flatten().tolist()


def test_a_bare_state_dict_has_no_configuration(tmp_path):
    torch.save(small_model("bos").state_dict(), tmp_path / "bare.pt")
    tensors, config = read(tmp_path / "bare.pt")
    assert config is None
    assert "embed.W_E" in tensors


class Hostile:
    def __reduce__(self):
        return os.system, ("true",)


def archive(payload: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", payload)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\3\4", b"nonsense", archive(pickle.dumps(Hostile())), archive(b"\x80\x02."), archive(pickle.dumps([1]))],
)
def test_what_is_no_checkpoint_is_refused(tmp_path, data):
    (tmp_path / "bad.pt").write_bytes(data)
    with pytest.raises(Unreadable):
        read(tmp_path / "bad.pt")


def test_a_missing_file_and_weights_that_are_not_finite_are_refused(tmp_path):
    with pytest.raises(Unreadable, match="regular file"):
        read(tmp_path / "none.pt")
    torch.save({"embed.W_E": torch.tensor([float("nan")])}, tmp_path / "nan.pt")
    with pytest.raises(Unreadable, match="finite"):
        read(tmp_path / "nan.pt")[0]["embed.W_E"].integers()
