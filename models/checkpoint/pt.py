"""`.pt`: the zip archive that torch.save writes of plain dicts and tensors.

The archive must hold a few uncompressed records in one folder. Records are views of the file's bytes, checked against
their checksums. The size of the directory is limited before zipfile reads it: 60 MB of it took 49 s and 0.7 GB.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import torch

from counting_interp.models.checkpoint import plain_pickle
from counting_interp.models.checkpoint.contents import FORMAT, MAX_HEADER_BYTES, MAX_TENSORS, Contents, TrainingState
from counting_interp.models.checkpoint.plain_pickle import SAVE_WEIGHTS, StoredTensor
from counting_interp.models.checkpoint.safetensors import (
    check_names,
    check_shape,
    check_sizes,
    from_array,
    from_bytes,
    to_array,
)
from counting_interp.util.errors import Refused, quoted
from counting_interp.util.plain_json import canonical, checked_tree, parse_strictly

_DAMAGED = "is a damaged archive; copy or download it again"
_AGAIN = "save it again with torch.save"
_END = struct.Struct("<4s4H2IH")  # signature, disks, entries here and in all, directory size and offset, comment
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCAL = struct.Struct("<4s2B4HL2L2H")


def _records(data: bytes) -> dict[str, memoryview]:
    """The records by their name in the archive's folder: `data.pkl`, `data/0`, ..."""
    _check_directory(data)
    try:
        entries = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error):
        raise Refused(_DAMAGED) from None
    _check_names([entry.orig_filename for entry in entries])
    if sum(entry.file_size for entry in entries) > len(data):
        raise Refused(f"is an archive whose records inflate beyond the file itself; {_AGAIN}")
    return {entry.orig_filename.split("/", 1)[1]: _record(data, entry) for entry in entries}


def _check_directory(data: bytes) -> None:
    """Refuse a large directory. The end record must be the end of the file, so that zipfile does not search for it."""
    if len(data) < _END.size or data[-_END.size :][:4] != b"PK\5\6" or data[-2:] != b"\0\0":
        raise Refused("has no end: it was cut off, or something was appended; copy or download it again")
    *_, total, size, offset, _ = _END.unpack(data[-_END.size :])
    locator = len(data) - _END.size - 20
    if data[max(locator, 0) :][:4] == b"PK\6\7" and locator >= _END_64.size:
        signature, *_, total, size, offset = _END_64.unpack(data[locator - _END_64.size : locator])
        if signature != b"PK\6\6":
            raise Refused(_DAMAGED)
    if total > MAX_TENSORS + 16 or size > MAX_HEADER_BYTES:
        raise Refused(f"is an archive of {total:,} records; a checkpoint has at most {MAX_TENSORS:,}")
    if offset + size > len(data):
        raise Refused(_DAMAGED)


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise Refused(f"is an archive with two records of the same name; {_AGAIN}")
    for name in names:
        folders = name.split("/")
        if len(folders) < 2 or {"", ".", ".."} & set(folders) or not name.isprintable() or "\\" in name:
            raise Refused(f"holds a record with an odd name ({quoted(name)}); {_AGAIN}")
    if len({name.split("/")[0] for name in names}) > 1:
        raise Refused("is an archive of several folders, not what torch.save writes; give the checkpoint inside it")


def _record(data: bytes, entry: zipfile.ZipInfo) -> memoryview:
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.compress_size != entry.file_size:
        raise Refused(f"holds compressed or encrypted records ({quoted(entry.orig_filename)}); {_AGAIN}")
    if not 0 <= entry.header_offset <= len(data) - _LOCAL.size:
        raise Refused(_DAMAGED)
    signature, *_, length, extra = _LOCAL.unpack_from(data, entry.header_offset)
    start = entry.header_offset + _LOCAL.size + length + extra
    record = memoryview(data)[start : start + entry.file_size]
    if signature != b"PK\3\4" or len(record) != entry.file_size or zlib.crc32(record) != entry.CRC:
        raise Refused(f"holds a record whose checksum fails ({quoted(entry.orig_filename)}), so it {_DAMAGED}")
    return record


TIED = 2  # all tensors together may take this many times the file, since tied weights are stored once
WRAPPERS = ("state_dict", "model_state_dict", "model")


def write(contents: Contents) -> bytes:
    """The bytes of the archive; the same contents give the same bytes."""
    payload: dict[str, Any] = {
        "format": FORMAT,
        "metadata": parse_strictly(canonical(contents.metadata)),
        "state_dict": {name: tensor.detach().cpu().clone() for name, tensor in contents.tensors.items()},
    }
    if contents.training_state is not None:
        state = contents.training_state
        payload["training_state"] = {
            "arrays": {name: from_array(array.copy()) for name, array in sorted(state.arrays.items())},
            "values": parse_strictly(canonical(state.values)),
        }
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    return buffer.getvalue()


def read(data: bytes) -> Contents:
    """The contents of our own files and of any plain state_dict, wrapped or bare."""
    records = _records(data)
    if "data.pkl" not in records:
        raise Refused("is an archive, but not one that torch.save writes; give the checkpoint itself")
    if "constants.pkl" in records:
        raise Refused(f"is a TorchScript program; {SAVE_WEIGHTS}")
    if bytes(records.get("byteorder", b"little")) != b"little":
        raise Refused("was written on a big-endian machine; save it again on a usual one")
    root = plain_pickle.load(bytes(records["data.pkl"]))
    if not isinstance(root, dict):
        kind = "Tensor" if isinstance(root, StoredTensor) else type(root).__name__
        raise Refused(f"holds a {kind}, not a state_dict; {SAVE_WEIGHTS}")
    storages = Storages(records, TIED * len(data))
    if root.get("format") == FORMAT:
        return _ours(root, storages)
    return Contents(storages.tensors(_unwrapped(root)))


def _ours(root: dict[Any, Any], storages: Storages) -> Contents:
    metadata, weights, state = root.get("metadata"), root.get("state_dict"), root.get("training_state")
    if not isinstance(metadata, dict) or not isinstance(weights, dict):
        raise Refused("lacks its metadata or its weights; write it again with model.save")
    training_state = None
    if state is not None:
        if not isinstance(state, dict) or not all(isinstance(state.get(key), dict) for key in ("arrays", "values")):
            raise Refused("has a malformed training state; write it again")
        arrays = {name: to_array(name, tensor) for name, tensor in storages.tensors(state["arrays"]).items()}
        training_state = TrainingState(arrays, checked_tree(state["values"]))
    return Contents(storages.tensors(weights), checked_tree(metadata), training_state)


def _unwrapped(root: dict[Any, Any]) -> dict[Any, Any]:
    for _ in range(3):
        inner = next((root[name] for name in WRAPPERS if isinstance(root.get(name), dict)), None)
        if inner is None:
            return root
        root = inner
    return root


class Storages:
    """The storages of an archive, each copied once, and the tensors that a pickle makes of them.

    A pickle can name one storage ten thousand times. All tensors together may take `room` bytes, so the work on each
    of them (scan, hash, copy) is bounded by the file's size.
    """

    def __init__(self, records: Mapping[str, memoryview], room: int) -> None:
        self._records = records
        self._room = room
        self._copies: dict[str, bytearray] = {}

    def tensors(self, table: dict[Any, Any]) -> dict[str, torch.Tensor]:
        """The tensors of a table that holds tensors by name and nothing else."""
        for name, value in table.items():
            if not isinstance(name, str) or not isinstance(value, StoredTensor):
                raise Refused(f"has something other than a tensor under {quoted(name)}; {SAVE_WEIGHTS}")
        check_names(table)
        return {name: self.tensor(stored) for name, stored in table.items()}

    def tensor(self, stored: StoredTensor) -> torch.Tensor:
        """One tensor, which must fill its storage exactly once, without gaps or overlaps."""
        key = stored.storage.key
        what = f"tensor record {quoted(key, 20)}"
        if not isinstance(stored.shape, (tuple, list)) or not isinstance(stored.stride, (tuple, list)):
            raise Refused(f"{what} has an impossible shape")
        shape, stride = check_shape(stored.shape, what), check_sizes(stored.stride, what)
        record = self._records.get(f"data/{key}")
        if record is None:
            raise Refused(f"lacks {what}; copy or download it again")
        dtype = getattr(torch, stored.dtype)
        numel = math.prod(shape)
        if stored.offset != 0 or numel * dtype.itemsize != len(record) or len(shape) != len(stride):
            raise Refused(
                f"{what} claims {numel:,} numbers of {dtype.itemsize} bytes, but {len(record):,} bytes are stored: "
                "a view of a larger tensor, or a trick; save .clone() of each tensor"
            )
        self._room -= len(record)
        if self._room < 0:
            raise Refused("names the same numbers again and again; save .clone() of each tensor")
        if key not in self._copies:
            self._copies[key] = bytearray(record)
        order = _axes_as_stored(shape, stride, what)
        stored_order = from_bytes(self._copies[key], dtype, tuple(shape[axis] for axis in order), what)
        return stored_order.permute(sorted(range(len(shape)), key=order.__getitem__))


def _axes_as_stored(shape: tuple[int, ...], stride: tuple[int, ...], what: str) -> list[int]:
    """The axes from the slowest to the fastest in memory; a Refused error if they leave gaps."""
    order = sorted(range(len(shape)), key=lambda axis: (-stride[axis], -shape[axis]))
    expected = 1
    for axis in reversed(order):
        if shape[axis] > 1 and stride[axis] != expected:
            raise Refused(f"{what} overlaps itself (shape {shape}, strides {stride}); save .contiguous() tensors")
        expected *= shape[axis]
    return order
