"""The weights of a checkpoint as exact integers, read without torch, and the hash that names them."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

OURS = "counting-interp"
MAX_BYTES = 64 * 2**20
LETTERS = {"F32": "f", "F64": "d"}
STORAGES = {"FloatStorage": "F32", "DoubleStorage": "F64"}
WRAPPERS = ("state_dict", "model_state_dict", "model")


class Unreadable(Exception):  # noqa: N818 (a reason; the command says which file)
    """Why a file cannot be used for a check."""


@dataclass(frozen=True)
class Tensor:
    """Little-endian numbers in row order. kind: F32 or F64."""

    kind: str
    shape: tuple[int, ...]
    data: bytes

    def integers(self) -> tuple[list[int], int]:
        """(n, bits): the values are n / 2^bits, exactly."""
        if self.kind not in LETTERS or len(self.data) != prod(self.shape) * struct.calcsize(LETTERS[self.kind]):
            raise Unreadable("has weights that are not float32 or float64, or not all of them")
        values = struct.unpack(f"<{prod(self.shape)}{LETTERS[self.kind]}", self.data)
        try:
            ratios = [value.as_integer_ratio() for value in values]
        except (OverflowError, ValueError):
            raise Unreadable("has weights that are not finite") from None
        bits = max((below.bit_length() - 1 for _, below in ratios), default=0)
        return [above << (bits + 1 - below.bit_length()) for above, below in ratios], bits


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over name, dtype, shape and bytes of each tensor in order of names: the `sha256` of our checkpoints."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name}\0{tensor.kind}\0{list(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        sha.update(tensor.data)
    return sha.hexdigest()


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """The tensors by name, and the configuration where the file has one."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        raise Unreadable(f"is not a regular file of at most {MAX_BYTES:,} bytes")
    data = path.read_bytes()
    try:
        tensors, facts = _archive(data) if data[:4] == b"PK\3\4" else _safetensors(data)
    except Unreadable:
        raise
    except Exception as error:  # whatever a damaged file makes of these few lines
        raise Unreadable(f"is damaged or no checkpoint ({type(error).__name__})") from None
    config = facts.get("config") if isinstance(facts, dict) else None
    return tensors, config if isinstance(config, dict) else None


def _safetensors(data: bytes) -> tuple[dict[str, Tensor], Any]:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    facts = header.pop("__metadata__", {})
    body = memoryview(data)[8 + length :]
    tensors = {
        name: Tensor(entry["dtype"], tuple(entry["shape"]), bytes(body[slice(*entry["data_offsets"])]))
        for name, entry in header.items()
        if not name.startswith("training_state.")
    }
    return tensors, json.loads(facts[OURS]) if OURS in facts else None


def _archive(data: bytes) -> tuple[dict[str, Tensor], Any]:
    """What torch.save writes: a zip of stored records, described by a pickle."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
            raise Unreadable(f"would take more than {MAX_BYTES:,} bytes")
        records = {entry.filename.split("/", 1)[-1]: archive.read(entry) for entry in archive.infolist()}
    if records.get("byteorder", b"little") != b"little":
        raise Unreadable("was written on a big-endian machine")
    root = _Pickle(io.BytesIO(records["data.pkl"]), records).load()
    facts = root.get("metadata") if root.get("format") == OURS else None
    for _ in WRAPPERS:
        root = next((root[name] for name in WRAPPERS if isinstance(root.get(name), dict)), root)
    if not all(isinstance(tensor, Tensor) for tensor in root.values()):
        raise Unreadable("holds something other than weights")
    return dict(root), facts


class _Pickle(pickle.Unpickler):
    """Knows four names; any other stops it. Nothing that a file names is ever looked up."""

    def __init__(self, file: io.BytesIO, records: dict[str, bytes]) -> None:
        super().__init__(file)
        self.records = records

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self._tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *rest: tensor
        if module == "torch" and name in STORAGES:
            return name
        raise Unreadable("holds more than plain float32 or float64 tensors")

    def persistent_load(self, saved: Any) -> tuple[str, bytes]:
        return STORAGES[saved[1]], self.records[f"data/{saved[2]}"]

    @staticmethod
    def _tensor(storage: tuple[str, bytes], offset: int, shape: Any, stride: Any, *rest: Any) -> Tensor:
        expected, size = [], 1
        for length in reversed(shape):
            expected.append(size)
            size *= length
        if offset != 0 or any(
            length > 1 and have != want for length, have, want in zip(shape, stride, reversed(expected), strict=True)
        ):
            raise Unreadable("has tensors that are views; save .contiguous() copies")
        return Tensor(storage[0], tuple(shape), storage[1])
