"""`.pt`: what torch.save writes of plain dicts and tensors."""

from __future__ import annotations

import io
import math
from typing import Any

import torch

from models.checkpoint import archive, json_like, plain_pickle
from models.checkpoint.contents import FORMAT, MAX_DEPTH, MAX_ITEMS, MAX_TENSORS, Contents, Refused, TrainingState
from models.checkpoint.plain_pickle import SAVE_WEIGHTS, StoredTensor
from models.checkpoint.tensors import check_shape, from_bytes
from models.errors import printable

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
            "arrays": {name: torch.from_numpy(array.copy()) for name, array in sorted(state.arrays.items())},
            "values": json_like.parse(json_like.dump(state.values)),
        }
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    return buffer.getvalue()


def read(data: bytearray) -> Contents:
    """Our own files, and any plain state_dict, wrapped or bare."""
    records = archive.records(data)
    if "data.pkl" not in records:
        raise Refused("is an archive, but not one that torch.save writes; give the checkpoint itself")
    if "constants.pkl" in records:
        raise Refused(f"is a TorchScript program; {SAVE_WEIGHTS}")
    if bytes(records.get("byteorder", b"little")) != b"little":
        raise Refused("was written on a big-endian machine; save it again on a usual one")
    root = _with_tensors(plain_pickle.load(bytes(records["data.pkl"])), records)
    if not isinstance(root, dict):
        raise Refused(f"holds a {type(root).__name__}, not a state_dict; {SAVE_WEIGHTS}")
    if root.get("format") == FORMAT:
        return _ours(root)
    return Contents(_named_tensors(_unwrapped(root)))


def _ours(root: dict[Any, Any]) -> Contents:
    metadata, weights, state = root.get("metadata"), root.get("state_dict"), root.get("training_state")
    if not isinstance(metadata, dict) or not isinstance(weights, dict):
        raise Refused("lacks its metadata or its weights; write it again with model.save")
    training_state = None
    if state is not None:
        if not isinstance(state, dict) or not all(isinstance(state.get(key), dict) for key in ("arrays", "values")):
            raise Refused("has a malformed training state; write it again")
        arrays = {name: tensor.numpy().copy() for name, tensor in _named_tensors(state["arrays"]).items()}
        training_state = TrainingState(arrays, json_like.checked(state["values"]))
    return Contents(_named_tensors(weights), json_like.checked(metadata), training_state)


def _unwrapped(root: dict[Any, Any]) -> dict[Any, Any]:
    for _ in range(3):
        inner = next((root[name] for name in WRAPPERS if isinstance(root.get(name), dict)), None)
        if inner is None:
            return root
        root = inner
    return root


def _named_tensors(table: dict[Any, Any]) -> dict[str, torch.Tensor]:
    for name, value in table.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise Refused(f"has something other than a tensor under {printable(repr(name), 60)}; {SAVE_WEIGHTS}")
    if len(table) > MAX_TENSORS:
        raise Refused(f"holds {len(table):,} tensors; a checkpoint has at most {MAX_TENSORS:,}")
    return table


def _with_tensors(value: Any, records: dict[str, memoryview]) -> Any:
    """The tree with each StoredTensor made real; its size bounds how often shared parts may be repeated."""
    items = 0

    def convert(value: Any, depth: int) -> Any:
        nonlocal items
        items += 1
        if depth > MAX_DEPTH or items > MAX_ITEMS:
            raise Refused(f"holds more than {MAX_ITEMS} values or {MAX_DEPTH} levels; {SAVE_WEIGHTS}")
        if isinstance(value, dict):
            return {key: convert(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [convert(item, depth + 1) for item in value]
        return _tensor(value, records) if isinstance(value, StoredTensor) else value

    return convert(value, 0)


def _tensor(stored: StoredTensor, records: dict[str, memoryview]) -> torch.Tensor:
    """Only a tensor that fills its storage exactly once: no gaps, no overlaps, no more elements than bytes."""
    what = f"tensor record {printable(stored.storage.key, 20)}"
    if not isinstance(stored.shape, (tuple, list)) or not isinstance(stored.stride, (tuple, list)):
        raise Refused(f"{what} has an impossible shape")
    shape, stride = check_shape(stored.shape, what), check_shape(stored.stride, what)
    record = records.get(f"data/{stored.storage.key}")
    if record is None:
        raise Refused(f"lacks {what}; copy or download it again")
    dtype = getattr(torch, stored.dtype)
    numel = math.prod(shape)
    if stored.offset != 0 or numel * dtype.itemsize != len(record) or len(shape) != len(stride):
        raise Refused(
            f"{what} claims {numel:,} numbers of {dtype.itemsize} bytes, but {len(record):,} bytes are stored: "
            "a view of a larger tensor, or a trick; save .clone() of each tensor"
        )
    order = sorted(range(len(shape)), key=lambda axis: (-stride[axis], -shape[axis]))
    expected = 1
    for axis in reversed(order):
        if shape[axis] > 1 and stride[axis] != expected:
            raise Refused(f"{what} overlaps itself (shape {shape}, strides {stride}); save .contiguous() tensors")
        expected *= shape[axis]
    stored_order = from_bytes(record, dtype, tuple(shape[axis] for axis in order), what)
    return stored_order.permute(sorted(range(len(shape)), key=order.__getitem__))
