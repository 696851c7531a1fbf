"""`.safetensors`: a length, a JSON header, and the tensors' bytes end to end.

Read by the library, which sees to it that the tensors lie end to end and use up the file. Around it: what it lets
through (a header of 100 MB, keys that stand twice, shapes that no tensor can have), and its errors turned into ours.
Written here, because the order of its header differs from run to run; it reads what is written here (tested).
"""

from __future__ import annotations

import json
import struct
from typing import Any

import safetensors
import torch

from counting_interp.models.checkpoint import json_like
from counting_interp.models.checkpoint.contents import FORMAT, MAX_HEADER_BYTES, Contents, Refused, TrainingState
from counting_interp.models.checkpoint.tensors import (
    CODES,
    DTYPES,
    check_names,
    check_shape,
    from_array,
    from_bytes,
    raw,
    to_array,
)
from counting_interp.util.errors import printable, quoted

TRAINING_PREFIX = "training_state."
FACTS = "__metadata__"


def write(contents: Contents) -> bytes:
    """Deterministic: the same contents give the same bytes. Tensors stand in order of alignment, then of names."""
    tensors = {name: tensor.detach().cpu() for name, tensor in contents.tensors.items()}
    facts = {"format": "pt", FORMAT: json_like.dump(contents.metadata)}
    if contents.training_state is not None:
        state = contents.training_state
        tensors |= {TRAINING_PREFIX + name: from_array(array) for name, array in state.arrays.items()}
        facts["training_state"] = json_like.dump(state.values)
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
    """The texts beside the tensors, from a header that is small, unambiguous, and names few tensors."""
    (length,) = struct.unpack("<Q", data[:8])
    if length > MAX_HEADER_BYTES:
        raise Refused(f"announces a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    if 8 + length > len(data):
        raise Refused("ends inside its header: it was cut off; copy or download it again")
    header = json_like.parse(data[8 : 8 + length])
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
    table = json_like.parse(text)
    if not isinstance(table, dict):
        raise Refused("has metadata that are not a table; save it again")
    return table
