"""`.pt`: what torch.save writes of plain dicts and tensors."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

import torch

from counting_interp.models.checkpoint import archive, json_like, plain_pickle
from counting_interp.models.checkpoint.contents import FORMAT, Contents, Refused, TrainingState
from counting_interp.models.checkpoint.plain_pickle import SAVE_WEIGHTS, StoredTensor
from counting_interp.models.checkpoint.tensors import (
    check_names,
    check_shape,
    check_sizes,
    from_array,
    from_bytes,
    to_array,
)
from counting_interp.util.errors import quoted

TIED = 2  # all tensors together may take this many times the file: tied weights are stored once
WRAPPERS = ("state_dict", "model_state_dict", "model")


def write(contents: Contents) -> bytes:
    """Deterministic: the same contents give the same bytes."""
    payload: dict[str, Any] = {
        "format": FORMAT,
        "metadata": json_like.parse(json_like.dump(contents.metadata)),
        "state_dict": {name: tensor.detach().cpu().clone() for name, tensor in contents.tensors.items()},
    }
    if contents.training_state is not None:
        state = contents.training_state
        payload["training_state"] = {
            "arrays": {name: from_array(array.copy()) for name, array in sorted(state.arrays.items())},
            "values": json_like.parse(json_like.dump(state.values)),
        }
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    return buffer.getvalue()


def read(data: bytes) -> Contents:
    """Our own files, and any plain state_dict, wrapped or bare."""
    records = archive.records(data)
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
        training_state = TrainingState(arrays, json_like.checked(state["values"]))
    return Contents(storages.tensors(weights), json_like.checked(metadata), training_state)


def _unwrapped(root: dict[Any, Any]) -> dict[Any, Any]:
    for _ in range(3):
        inner = next((root[name] for name in WRAPPERS if isinstance(root.get(name), dict)), None)
        if inner is None:
            return root
        root = inner
    return root


class Storages:
    """The storages of an archive, each copied once, and the tensors that a pickle makes of them.

    A pickle can name one storage ten thousand times. All tensors together may take `room` bytes, so whatever is done to
    each of them afterwards (scanned, hashed, copied) is bounded by the file's size.
    """

    def __init__(self, records: Mapping[str, memoryview], room: int) -> None:
        self._records = records
        self._room = room
        self._copies: dict[str, bytearray] = {}

    def tensors(self, table: dict[Any, Any]) -> dict[str, torch.Tensor]:
        """A table of nothing but tensors by name."""
        for name, value in table.items():
            if not isinstance(name, str) or not isinstance(value, StoredTensor):
                raise Refused(f"has something other than a tensor under {quoted(name)}; {SAVE_WEIGHTS}")
        check_names(table)
        return {name: self.tensor(stored) for name, stored in table.items()}

    def tensor(self, stored: StoredTensor) -> torch.Tensor:
        """Only a tensor that fills its storage exactly once: no gaps, no overlaps, no more elements than bytes."""
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
    """The axes from the slowest to the fastest in memory, which they must fill without gaps."""
    order = sorted(range(len(shape)), key=lambda axis: (-stride[axis], -shape[axis]))
    expected = 1
    for axis in reversed(order):
        if shape[axis] > 1 and stride[axis] != expected:
            raise Refused(f"{what} overlaps itself (shape {shape}, strides {stride}); save .contiguous() tensors")
        expected *= shape[axis]
    return order
