"""Raw little-endian bytes to tensors and back, and the fingerprint of a set of tensors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from models.checkpoint.contents import MAX_DIMENSIONS, Refused

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


def check_shape(shape: Sequence[object], what: str) -> tuple[int, ...]:
    """Sizes as plain non-negative integers, few of them, with a product that cannot overflow."""
    sizes = tuple(size for size in shape if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40)
    if len(sizes) < len(shape) or len(sizes) > MAX_DIMENSIONS:
        raise Refused(f"{what} has an impossible shape")
    return sizes


def from_bytes(data: memoryview, dtype: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
    """A tensor over exactly these bytes, without a copy where their alignment allows it."""
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise Refused(f"{what} should take {expected:,} bytes, but the file has {len(data):,} for it")
    if not expected:
        return torch.empty(shape, dtype=dtype)
    raw = torch.frombuffer(data, dtype=torch.uint8)
    if dtype is torch.bool and raw.max() > 1:
        raise Refused(f"{what} holds bytes that are neither true nor false")
    aligned = data if raw.data_ptr() % dtype.itemsize == 0 else bytearray(data)
    return torch.frombuffer(aligned, dtype=dtype).reshape(shape)


def to_bytes(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def digest(tensors: Mapping[str, Tensor], also: str = "") -> str:
    """sha256 over name, dtype, shape and bytes of each tensor in order of names, then over the text `also`."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name}\0{CODES[tensor.dtype]}\0{list(tensor.shape)}\0".encode("utf-8", "surrogatepass"))
        sha.update(to_bytes(tensor))
    sha.update(also.encode())
    return sha.hexdigest()
