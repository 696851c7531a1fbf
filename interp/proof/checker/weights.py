"""The weights of a checkpoint as exact integers, read without torch, and the hash that names them."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from counting_interp.interp.proof.checker import archive
from counting_interp.interp.proof.checker.files import Unreadable, content

OURS = "counting-interp"
MAX_BYTES = 64 * 2**20
LETTERS = {"F32": "f", "F64": "d"}
KINDS = {"float32": "F32", "float64": "F64"}
STORAGES = {"FloatStorage": "F32", "DoubleStorage": "F64"}
FORMAT_VERSION = 1
TRAINING = "training_state"


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


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors by name, all of one kind, and the configuration.

    A file without a configuration is refused: whether its attention has a softmax, for one, is not in its weights, so
    it can be read in more than one way.
    """
    data = content(path, MAX_BYTES, Unreadable)
    try:
        tensors, facts = _archive(data) if data[:4] == b"PK\3\4" else _safetensors(data)
    except Unreadable:
        raise
    except Exception as error:  # whatever a damaged file makes of these few lines
        raise Unreadable(f"is damaged or no checkpoint ({type(error).__name__})") from None
    config = facts.get("config") if isinstance(facts, dict) else None
    if not isinstance(config, dict):
        raise Unreadable("states no configuration, so it can be read in more than one way; save it with model.save")
    if type(facts.get("format_version")) is not int or facts["format_version"] != FORMAT_VERSION:
        raise Unreadable(f"is not of format version {FORMAT_VERSION}")
    if facts.get("sha256") != digest(tensors):
        raise Unreadable("was changed after it was written: its sha256 does not hold")
    kinds = {tensor.kind for tensor in tensors.values()}
    if kinds != {KINDS.get(config.get("dtype", "float32"))}:
        raise Unreadable("has weights of several kinds, or of another kind than it says")
    return tensors, config


def _safetensors(data: bytes) -> tuple[dict[str, Tensor], Any]:
    """A length, a header, and tensors that use up the rest of the file from end to end, in some order."""
    (length,) = struct.unpack("<Q", data[:8])
    header = _json(data[8 : 8 + length])
    facts = header.pop("__metadata__", {})
    body = data[8 + length :]
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        if set(entry) != {"dtype", "shape", "data_offsets"} or start != end or stop < start:
            raise Unreadable("has tensors that overlap, or bytes that belong to none")
        end = stop
        if not (name.startswith(f"{TRAINING}.") and TRAINING in facts):
            tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), body[start:stop])
    if end != len(body) or 8 + length > len(data):
        raise Unreadable("is cut off, or something was appended")
    return tensors, _json(facts[OURS]) if OURS in facts else None


def _json(text: bytes | str) -> Any:
    """A document in which no key stands twice."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise Unreadable("has a key twice")
        return dict(pairs)

    def constant(name: str) -> NoReturn:
        raise Unreadable(f"holds {name}")

    return json.loads(text, object_pairs_hook=table, parse_constant=constant)


def _archive(data: bytes) -> tuple[dict[str, Tensor], Any]:
    """What torch.save writes: a zip of stored records, described by a pickle."""
    records = archive.records(data)
    if records.get("byteorder", b"little") != b"little":
        raise Unreadable("was written on a big-endian machine")
    root = _Pickle(io.BytesIO(records["data.pkl"]), records).load()
    if root.get("format") != OURS:
        return {}, None
    tensors = root["state_dict"]
    if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise Unreadable("holds something other than weights")
    return dict(tensors), root["metadata"]


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
