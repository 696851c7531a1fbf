"""Tools to build broken and hostile files."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from functools import cache
from typing import Any

import torch

from counting_interp.models import CountingTransformer
from counting_interp.models.checkpoint import pt, safetensors
from counting_interp.models.checkpoint.contents import Contents, TrainingState
from counting_interp.models.checkpoint.files import fingerprints
from tests.helpers import small_model
from tests.models.checkpoint.counting import counting_model, published_layout

NASTY = "\x1b[31m[red]</script>\n\u202e🦀../../x" + "y" * 10_000


class Shell:
    """Unpickled by a trusting reader, runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def torch_file(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def optimizer_state() -> dict[str, Any]:
    """As Adam's state_dict looks; making a real one imports torch's compiler, which takes seconds."""
    moments = {"step": torch.tensor(1.0), "exp_avg": torch.ones(2, 3), "exp_avg_sq": torch.ones(2, 3)}
    group = {"lr": 1e-3, "betas": (0.9, 0.98), "foreach": None, "amsgrad": False, "params": [0]}
    return {"state": {0: moments}, "param_groups": [group]}


@cache
def good_records() -> dict[str, bytes]:
    """The records of a good published-layout file."""
    with zipfile.ZipFile(io.BytesIO(torch_file(published_layout(counting_model("dot"))))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(records: dict[str, bytes] | list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, data in records.items() if isinstance(records, dict) else records:
            out.writestr(name, data)
    return buffer.getvalue()


def with_pickle(data: bytes) -> bytes:
    return archive({**good_records(), "archive/data.pkl": data})


def tensor_pickle(arguments: str) -> bytes:
    """A state_dict with one tensor rebuilt with the given arguments after the storage, as pickle source."""
    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0" + b"0X\x03\0\0\0cpuK\x02tQ"
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + arguments.encode("latin-1") + b"tR"
    return b"\x80\x02}X\x13\0\0\0semantic_emb.weight" + rebuilt + b"s."


def state(**changes: Any) -> dict[str, Any]:
    """The published layout of a good model with some tensors replaced; None takes one out."""
    layout = published_layout(counting_model("dot"))
    layout |= {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in layout.items() if value is not None}


def ours(
    config: dict[str, Any] | None = None,
    weights: dict[str, Any] | None = None,
    form: str = "pt",
    model: CountingTransformer | None = None,
    fields: dict[str, Any] | None = None,
    state: TrainingState | None = None,
    **metadata: Any,
) -> bytes:
    """A file of our own format with some fields changed, its hash right again; None takes a field out.

    Args:
        fields: of the metadata, whatever their kind, under the hash.
        metadata: of the metadata, after the hash was taken.
    """
    model = model or small_model("bos", dtype="float32")
    tensors = {**model.state_dict(), **(weights or {})}
    facts: dict[str, Any] = {"format_version": 1, "config": model.config.to_dict() | (config or {}), **metadata}
    facts["config"] = {name: value for name, value in facts["config"].items() if value is not None}
    facts |= fields or {}
    facts |= fingerprints(Contents(tensors, facts, state)) | metadata
    facts = {name: value for name, value in facts.items() if name not in metadata or value is not None}
    contents = Contents(tensors, facts, state)
    return pt.write(contents) if form == "pt" else safetensors.write(contents)


def raw_ours(metadata: Any) -> bytes:
    """Our own format around any object at all as metadata."""
    weights = dict(small_model("bos", dtype="float32").state_dict())
    return torch_file({"format": "counting-interp", "metadata": metadata, "state_dict": weights})


def header(text: bytes | dict[str, Any], body: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with this header."""
    encoded = text if isinstance(text, bytes) else json.dumps(text).encode()
    return struct.pack("<Q", len(encoded) if length is None else length) + encoded + body


def one_tensor(body: bytes = bytes(8), **fields: Any) -> bytes:
    return header({"embed.W_E": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **fields}}, body)


def config_text(old: str, new: str) -> bytes:
    """Our own safetensors file with a piece of the metadata's JSON text replaced."""
    data = ours(form="safetensors")
    (length,) = struct.unpack("<Q", data[:8])
    fields = json.loads(data[8 : 8 + length])
    text = fields["__metadata__"]["counting-interp"]
    assert old in text
    fields["__metadata__"]["counting-interp"] = text.replace(old, new)
    return header(fields, data[8 + length :])


def patched_directory(data: bytes, offset: int, value: bytes) -> bytes:
    """A zip archive with some bytes of its first directory entry replaced."""
    start = data.index(b"PK\1\2") + offset
    return data[:start] + value + data[start + len(value) :]


def cycle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def laughs(levels: int) -> list[Any]:
    """Ten references to ten references to ...: small in the pickle, endless to walk."""
    value: list[Any] = ["ha"]
    for _ in range(levels):
        value = [value] * 10
    return value


def deep(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


def flipped(data: bytes, needle: bytes) -> bytes:
    start = data.index(needle)
    return data[:start] + bytes([data[start] ^ 1]) + data[start + 1 :]


def rebuilt_by(function: str) -> bytes:
    """A state_dict whose one tensor torch would rebuild by another function of its own."""
    return with_pickle(b"\x80\x02}X\x01\0\0\0actorch._utils\n" + function.encode() + b"\n)Rs.")
