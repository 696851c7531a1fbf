"""Raw little-endian bytes to tensors and back, and the fingerprint of a set of tensors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from counting_interp.models.checkpoint.contents import MAX_DIMENSIONS, MAX_NAME, MAX_TENSORS, Refused
from counting_interp.util.errors import quoted

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
    """Few tensors, with short names: whatever is done with them afterwards takes no time."""
    names = list(names)
    if len(names) > MAX_TENSORS:
        raise Refused(f"holds {len(names):,} tensors; a checkpoint has at most {MAX_TENSORS:,}")
    long = next((name for name in names if len(name) > MAX_NAME), None)
    if long is not None:
        raise Refused(f"has the tensor {quoted(long)}, which no counting model has")


def check_sizes(sizes: Sequence[object], what: str) -> tuple[int, ...]:
    """Plain non-negative integers, few of them."""
    plain = tuple(size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40)
    if len(plain) < len(sizes) or len(plain) > MAX_DIMENSIONS:
        raise Refused(f"{what} has an impossible shape")
    return plain


def check_shape(shape: Sequence[object], what: str) -> tuple[int, ...]:
    """Sizes with a product that cannot overflow, not even where one of them is zero: [0, 2^39, 2^39] has strides."""
    sizes = check_sizes(shape, what)
    if math.prod(max(size, 1) for size in sizes) >= 2**62:
        raise Refused(f"{what} has an impossible shape")
    return sizes


def from_bytes(data: bytearray, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
    """A tensor over exactly these bytes; the tensor and `data` share them."""
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise Refused(f"{what} should take {expected:,} bytes, but the file has {len(data):,} for it")
    if not expected:
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool and torch.frombuffer(data, dtype=torch.uint8).max() > 1:
        raise Refused(f"{what} holds bytes that are neither true nor false")
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def to_array(name: str, tensor: Tensor) -> np.ndarray:
    """An array of a training state, over the same memory."""
    if tensor.dtype is torch.bfloat16:
        raise Refused(f"stores {quoted(name)} of its training state as bfloat16, which no array has; write it again")
    return tensor.numpy()


def from_array(array: np.ndarray) -> Tensor:
    """The array as a tensor, over the same memory where torch can use that."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def raw(tensor: Tensor) -> np.ndarray:
    """The bytes of a tensor in the order of its indices, copied only where they lie in another."""
    if not tensor.numel():  # strides of nothing may be zero, and then torch gives no view
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
