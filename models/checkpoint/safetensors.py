"""`.safetensors`: a length, a JSON header, and the bytes of all tensors end to end; and fingerprints of tensors.

The safetensors library reads the files and ensures that the tensors lie end to end and fill the file. Limits on what it
accepts are added here: a header of 100 MB, duplicate keys, impossible shapes. Files are written here, because the order
of the library's header differs from run to run; the library reads them (tested).
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
import torch
from torch import Tensor

from counting_interp.models.checkpoint.contents import (
    FORMAT,
    MAX_DIMENSIONS,
    MAX_HEADER_BYTES,
    MAX_NAME,
    MAX_TENSORS,
    Contents,
    TrainingState,
)
from counting_interp.util.errors import Refused, printable, quoted
from counting_interp.util.plain_json import canonical, parse_strictly

DTYPES: dict[str, torch.dtype] = {  # by safetensors' code
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


def check_names(names: Iterable[str]) -> None:
    """Refuse many tensors or long names."""
    names = list(names)
    if len(names) > MAX_TENSORS:
        raise Refused(f"holds {len(names):,} tensors; a checkpoint has at most {MAX_TENSORS:,}")
    long = next((name for name in names if len(name) > MAX_NAME), None)
    if long is not None:
        raise Refused(f"has the tensor {quoted(long)}, which no counting model has")


def check_sizes(sizes: Sequence[object], what: str) -> tuple[int, ...]:
    """`sizes` as a tuple of a few non-negative integers; others are Refused."""
    valid = tuple(size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40)
    if len(valid) < len(sizes) or len(valid) > MAX_DIMENSIONS:
        raise Refused(f"{what} has an impossible shape")
    return valid


def check_shape(shape: Sequence[object], what: str) -> tuple[int, ...]:
    """`check_sizes`, and a product of the non-zero sizes that cannot overflow: [0, 2^39, 2^39] has strides."""
    sizes = check_sizes(shape, what)
    if math.prod(max(size, 1) for size in sizes) >= 2**62:
        raise Refused(f"{what} has an impossible shape")
    return sizes


def from_bytes(data: bytearray, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
    """A tensor over exactly these bytes, which it shares with `data`."""
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise Refused(f"{what} should take {expected:,} bytes, but the file has {len(data):,} for it")
    if not expected:
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool and torch.frombuffer(data, dtype=torch.uint8).max() > 1:
        raise Refused(f"{what} holds bytes that are neither true nor false")
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def to_array(name: str, tensor: Tensor) -> np.ndarray:
    """A tensor of a training state as an array over the same memory."""
    if tensor.dtype is torch.bfloat16:
        raise Refused(f"stores {quoted(name)} of its training state as bfloat16, which no array has; write it again")
    return tensor.numpy()


def from_array(array: np.ndarray) -> Tensor:
    """The array as a tensor, over the same memory if torch can use it."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def raw(tensor: Tensor) -> np.ndarray:
    """The bytes of a tensor in the order of its indices, copied only if it is not contiguous."""
    if not tensor.numel():  # strides of an empty tensor may be zero, and then torch gives no view
        return np.empty(0, np.uint8)
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def digest(tensors: Mapping[str, Tensor], also: str = "") -> str:
    """sha256 over name, dtype, shape and bytes of each tensor in order of names, then over the text `also`."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name}\0{CODES[tensor.dtype]}\0{list(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        sha.update(raw(tensor).data)
    sha.update(also.encode())
    return sha.hexdigest()


TRAINING_PREFIX = "training_state."
FACTS = "__metadata__"


def write(contents: Contents) -> bytes:
    """The bytes of a file, the same for the same contents. Tensors are sorted by alignment, then by name."""
    tensors = {name: tensor.detach().cpu() for name, tensor in contents.tensors.items()}
    facts = {"format": "pt", FORMAT: canonical(contents.metadata)}
    if contents.training_state is not None:
        state = contents.training_state
        tensors |= {TRAINING_PREFIX + name: from_array(array) for name, array in state.arrays.items()}
        facts["training_state"] = canonical(state.values)
    header: dict[str, Any] = {FACTS: facts}
    body = bytearray()
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        tensor = tensors[name]
        start = len(body)
        body += raw(tensor).tobytes()
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def looks_like(data: bytes) -> bool:
    return len(data) > 8 and data[8:9] == b"{"


def read(data: bytes) -> Contents:
    facts = _facts(data)
    tensors = _tensors(data)
    if FORMAT not in facts:
        return Contents(tensors)
    metadata = _table(facts[FORMAT])
    if "training_state" not in facts:
        return Contents(tensors, metadata)
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(TRAINING_PREFIX)}
    arrays = {
        name.removeprefix(TRAINING_PREFIX): to_array(name, tensor)
        for name, tensor in tensors.items()
        if name.startswith(TRAINING_PREFIX)
    }
    return Contents(weights, metadata, TrainingState(arrays, _table(facts["training_state"])))


def _facts(data: bytes) -> dict[str, str]:
    """The texts of the header, which must be small and unambiguous and name few tensors."""
    (length,) = struct.unpack("<Q", data[:8])
    if length > MAX_HEADER_BYTES:
        raise Refused(f"announces a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    if 8 + length > len(data):
        raise Refused("ends inside its header: it was cut off; copy or download it again")
    header = parse_strictly(data[8 : 8 + length])
    facts = header.pop(FACTS, {})
    if not isinstance(facts, dict) or not all(isinstance(text, str) for text in facts.values()):
        raise Refused(f"has a malformed {FACTS} table; save it again")
    check_names(header)
    return facts


def _tensors(data: bytes) -> dict[str, torch.Tensor]:
    try:
        entries = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        reason = printable(str(error).removeprefix("Error while deserializing: "), 100)
        raise Refused(f"is a damaged safetensors file ({reason}); copy or download it again") from None
    tensors = {}
    for name, entry in sorted(entries, key=lambda entry: entry[0]):
        what = f"tensor {quoted(name)}"
        if entry["dtype"] not in DTYPES:
            raise Refused(f"stores {what} as {quoted(entry['dtype'], 20)}, which is not read; save float32 weights")
        tensors[name] = from_bytes(entry["data"], DTYPES[entry["dtype"]], check_shape(entry["shape"], what), what)
    return tensors


def _table(text: str) -> dict[str, Any]:
    table = parse_strictly(text)
    if not isinstance(table, dict):
        raise Refused("has metadata that are not a table; save it again")
    return table
