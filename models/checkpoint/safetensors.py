"""`.safetensors`: a length, a JSON header, and the tensors' bytes end to end.

Read and written here rather than by the library, whose header order differs from run to run and whose errors are its
own; it reads what is written here, and the other way round (tested).
"""

from __future__ import annotations

import json
import struct
from typing import Any

import torch

from models.checkpoint import json_like
from models.checkpoint.contents import FORMAT, MAX_HEADER_BYTES, MAX_TENSORS, Contents, Refused, TrainingState
from models.checkpoint.tensors import CODES, DTYPES, check_shape, from_bytes, to_bytes
from models.errors import printable

TRAINING_PREFIX = "training_state."


def write(contents: Contents) -> bytes:
    """Deterministic: the same contents give the same bytes. Tensors stand in order of alignment, then of names."""
    tensors = {name: tensor.detach().cpu() for name, tensor in contents.tensors.items()}
    facts = {"format": "pt", FORMAT: json_like.dump(contents.metadata)}
    if contents.training_state is not None:
        state = contents.training_state
        tensors |= {TRAINING_PREFIX + name: torch.from_numpy(array.copy()) for name, array in state.arrays.items()}
        facts["training_state"] = json_like.dump(state.values)
    header: dict[str, Any] = {"__metadata__": facts}
    body = bytearray()
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        tensor = tensors[name]
        start = len(body)
        body += to_bytes(tensor)
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, len(body)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def looks_like(data: bytearray) -> bool:
    return len(data) > 8 and data[8:9] == b"{"


def read(data: bytearray) -> Contents:
    (length,) = struct.unpack("<Q", data[:8])
    if length > MAX_HEADER_BYTES:
        raise Refused(f"announces a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    if 8 + length > len(data):
        raise Refused("ends inside its header: it was cut off; copy or download it again")
    header = json_like.parse(bytes(data[8 : 8 + length]))
    facts = header.pop("__metadata__", {})
    if not isinstance(facts, dict) or not all(isinstance(text, str) for text in facts.values()):
        raise Refused("has a malformed __metadata__ table; save it again")
    if len(header) > MAX_TENSORS:
        raise Refused(f"holds {len(header):,} tensors; a checkpoint has at most {MAX_TENSORS:,}")
    tensors = _tensors(header, memoryview(data)[8 + length :])
    if FORMAT not in facts:
        return Contents(tensors)
    metadata = _table(facts[FORMAT])
    if "training_state" not in facts:
        return Contents(tensors, metadata)
    weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(TRAINING_PREFIX)}
    arrays = {
        name.removeprefix(TRAINING_PREFIX): tensor.numpy().copy()
        for name, tensor in tensors.items()
        if name.startswith(TRAINING_PREFIX)
    }
    return Contents(weights, metadata, TrainingState(arrays, _table(facts["training_state"])))


def _tensors(header: dict[str, Any], body: memoryview) -> dict[str, torch.Tensor]:
    """The tensors must lie end to end and use up the file: no gaps to hide in, no overlaps, nothing cut off."""
    entries = {name: _entry(name, fields) for name, fields in header.items()}
    position = 0
    tensors = {}
    for name, (dtype, shape, start, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if start != position or stop < start or stop > len(body):
            raise Refused(f"places the tensor {printable(repr(name), 60)} outside the file or over another; copy again")
        tensors[name] = from_bytes(body[start:stop], dtype, shape, f"tensor {printable(repr(name), 60)}")
        position = stop
    if position != len(body):
        raise Refused(f"has {len(body) - position:,} bytes that belong to no tensor; copy or download it again")
    return tensors


def _entry(name: str, fields: Any) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    what = f"tensor {printable(repr(name), 60)}"
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise Refused(f"describes {what} in an unknown way; save it again")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Refused(f"stores {what} as {printable(repr(dtype), 20)}, which is not read; save float32 weights")
    if not isinstance(shape, list) or not isinstance(offsets, list):
        raise Refused(f"describes {what} in an unknown way; save it again")
    start, stop = check_shape(offsets, what) if len(offsets) == 2 else (1, 0)
    return DTYPES[dtype], check_shape(shape, what), start, stop


def _table(text: str) -> dict[str, Any]:
    table = json_like.parse(text)
    if not isinstance(table, dict):
        raise Refused("has metadata that are not a table; save it again")
    return table
