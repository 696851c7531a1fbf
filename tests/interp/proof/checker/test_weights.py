"""Checkpoints read without torch are what torch reads."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from counting_interp.interp.proof.checker.weights import Tensor, Unreadable, digest, read
from counting_interp.models import checkpoint
from counting_interp.models.checkpoint import pt
from counting_interp.models.checkpoint import safetensors as our_safetensors
from counting_interp.models.checkpoint.contents import Contents
from counting_interp.models.checkpoint.safetensors import digest as tensors_digest
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


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_file_without_configuration_can_be_read_in_two_ways_and_is_refused(tmp_path, ending):
    """These shapes fit bos with T = 7 and dot with T = 8, each with a softmax or without."""
    state = small_model("bos", T=7, L=5).state_dict()
    if ending == "pt":
        torch.save(state, tmp_path / "bare.pt")
    else:
        safetensors.torch.save_file(state, tmp_path / "bare.safetensors")
    with pytest.raises(Unreadable, match="more than one way"):
        read(tmp_path / f"bare.{ending}")


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
    with pytest.raises(Unreadable, match="does not exist"):
        read(tmp_path / "none.pt")
    with pytest.raises(Unreadable, match="regular file"):
        read(tmp_path)
    with pytest.raises(Unreadable, match="finite"):
        Tensor("F32", (1,), struct.pack("<f", float("nan"))).integers()


# --- files that say different things to different readers -------------------------------------------------------------


def saved(tmp_path: Path, ending: str) -> bytes:
    small_model("bos").save(tmp_path / f"model.{ending}")
    return (tmp_path / f"model.{ending}").read_bytes()


def parts_of(data: bytes) -> tuple[bytes, bytes, int]:
    """Of an archive without a second end record: its records, its directory, and the number of entries."""
    total, size, offset = struct.unpack("<HII", data[-12:-2])
    return data[:offset], data[offset : offset + size], total


def end(total: int, size: int, offset: int) -> bytes:
    return struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, total, total, size, offset, 0)


def two_directories(data: bytes) -> bytes:
    """The end record points at the first; readers that look right before it find the second."""
    records, directory, total = parts_of(data)
    return records + directory + directory + end(total, len(directory), len(records))


def bytes_between(data: bytes) -> bytes:
    records, directory, total = parts_of(data)
    return records + b"unnamed!" + directory + end(total, len(directory), len(records) + 8)


def out_of_order(data: bytes) -> bytes:
    """The directory's first two entries change places."""
    records, directory, total = parts_of(data)
    first = 46 + sum(struct.unpack_from("<3H", directory, 28))
    second = 46 + sum(struct.unpack_from("<3H", directory, first + 28))
    turned = directory[first : first + second] + directory[:first] + directory[first + second :]
    return records + turned + end(total, len(turned), len(records))


def rewritten(data: bytes, change: Callable[[zipfile.ZipFile], None], compression: int = zipfile.ZIP_STORED) -> bytes:
    """The records in a new archive, and what `change` adds."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        change(new)
    return buffer.getvalue()


def record_twice(archive: zipfile.ZipFile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("archive/data/0", b"\0" * 64)


def nothing(archive: zipfile.ZipFile) -> None:
    pass


TRICKS: dict[str, Callable[[bytes], bytes]] = {
    "two directories": two_directories,
    "bytes that nobody names": bytes_between,
    "records out of order": out_of_order,
    "something appended": lambda data: data + b"\0",
    "a comment": lambda data: data[:-2] + b"\1\0x",
    "something in front": lambda data: b"PK\3\4" + data,
    "a record twice": lambda data: rewritten(data, record_twice),
    "two folders": lambda data: rewritten(data, lambda new: new.writestr("other/data.pkl", b"")),
    "compressed": lambda data: rewritten(data, nothing, zipfile.ZIP_DEFLATED),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_an_archive_that_can_be_read_in_two_ways_is_refused(tmp_path, trick):
    data = rewritten(saved(tmp_path, "pt"), nothing)
    (tmp_path / "model.pt").write_bytes(data)
    assert read(tmp_path / "model.pt")  # a plain archive by another writer is
    (tmp_path / "model.pt").write_bytes(TRICKS[trick](data))
    with pytest.raises(Unreadable):
        read(tmp_path / "model.pt")


def with_header(data: bytes, change: Callable[[dict], None], behind: bytes = b"") -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :] + behind


def overlap(header: dict) -> None:
    header["blocks.0.mlp.b_out"]["data_offsets"] = header["blocks.0.mlp.b_in"]["data_offsets"]


def facts_changed(header: dict, **changes: object) -> None:
    facts = json.loads(header["__metadata__"]["counting-interp"])
    header["__metadata__"]["counting-interp"] = json.dumps(facts | changes)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data + b"\0" * 8,
        lambda data: data[:-8],
        lambda data: with_header(data, overlap),
        lambda data: with_header(data, lambda header: header.pop("blocks.0.mlp.b_out")),
        lambda data: with_header(data, lambda header: facts_changed(header, format_version=2)),
        lambda data: with_header(data, lambda header: facts_changed(header, sha256="0" * 64)),
        lambda data: data.replace(b'"embed.W_E"', b'"embed.W_E":{},"embed.W_E"'),
    ],
    ids=["appended", "cut", "overlap", "gap", "version", "hash", "key twice"],
)
def test_a_safetensors_file_with_a_trick_is_refused(tmp_path, damage):
    data = saved(tmp_path, "safetensors")
    (tmp_path / "model.safetensors").write_bytes(damage(data))
    with pytest.raises(Unreadable):
        read(tmp_path / "model.safetensors")


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_weights_of_two_kinds_are_refused(tmp_path, ending):
    model = small_model("bos", dtype="float32")
    state = dict(model.state_dict())
    state["blocks.0.mlp.b_out"] = state["blocks.0.mlp.b_out"].double()
    facts = {"format_version": 1, "config": model.config.to_dict(), "sha256": tensors_digest(state)}
    contents = Contents(state, facts)
    (tmp_path / f"mixed.{ending}").write_bytes((pt if ending == "pt" else our_safetensors).write(contents))
    with pytest.raises(Unreadable, match="several kinds"):
        read(tmp_path / f"mixed.{ending}")
