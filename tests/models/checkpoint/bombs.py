"""Small files that are large to look at: shared parts, shared storages, long names, shapes of nothing.

Each got past the guard once: it took minutes or gigabytes, or the error was another library's.

name -> (bytes, what the refusal must say)
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import torch

from counting_interp.models.checkpoint import pt, safetensors
from counting_interp.models.checkpoint.contents import Contents, TrainingState
from tests.helpers import small_model
from tests.models.checkpoint.craft import archive, header, laughs, raw_ours, torch_file, with_pickle


def every_bomb() -> dict[str, tuple[bytes, str]]:
    return {**_texts(), **_pickles(), **_storages(), **_training_states()}


def _texts() -> dict[str, tuple[bytes, str]]:
    keys = b",".join(b'"%05x":0' % i for i in range(90_000))
    entry = {"dtype": "F32", "shape": [0, 2**39, 2**39], "data_offsets": [0, 0]}
    prefixes = {"module." * 100_000 + "fc1.bias": torch.ones(1)}
    return {
        "90,000 keys, the last one twice": (header(b"{" + keys + b',"15f8f":0}'), "key '15f8f' twice"),
        "nothing, in absurd dimensions": (header({"embed.W_E": entry}), "impossible shape"),
        "name of 100,000 prefixes": (torch_file(prefixes), "which no counting model has"),
        "name of 0.5 MB": (torch_file({"\x1b" * 500_000: torch.ones(1)}), "which no counting model has"),
        "name of 0.5 MB in a header": (header({"\u202e" * 80_000: {**entry, "shape": [0]}}), "no counting model"),
        "dtype of 0.5 MB": (header({"a": {**entry, "dtype": "\x1b" * 80_000}}), "unknown variant"),
    }


def _pickles() -> dict[str, tuple[bytes, str]]:
    """STACK_GLOBAL (0x93) and other instructions over operands that are not what they should be."""
    nested = b")" + b"\x85" * 90_000
    doubled = b")q\0" + b"h\0\x86q\0" * 5_000  # a pair of the same pair of the same pair ...
    text = b"X" + struct.pack("<I", 600_000) + b"\xe2\x80\xae" * 200_000
    repeated = text + b"q\0(" + b"h\0" * 90_000 + b"t"
    name = b"\x8c\x01x"
    deep_key = b"}" + doubled + b"Ns"
    return {
        "global of nested tuples": (with_pickle(b"\x80\x04" + nested + name + b"\x93."), "damaged pickle"),
        "global of doubled tuples": (with_pickle(b"\x80\x04" + doubled + name + b"\x93."), "damaged pickle"),
        "global called doubled tuples": (with_pickle(b"\x80\x04" + name + doubled + b"\x93."), "damaged pickle"),
        "global of a repeated text": (with_pickle(b"\x80\x04" + repeated + name + b"\x93."), "damaged pickle"),
        "global of a long text": (with_pickle(b"\x80\x04" + text + name + b"\x93."), "names code to run"),
        "doubled tuples as a key": (with_pickle(b"\x80\x04" + deep_key + b"."), "keys are not names"),
        "doubled tuples as a storage": (with_pickle(b"\x80\x04" + doubled + b"Q."), "damaged pickle"),
        "doubled tuples reduced": (with_pickle(b"\x80\x04" + doubled + b"h\0R."), "damaged pickle"),
        "a long key twice": (with_pickle(b"\x80\x04}" + text + b"q\0Nsh\0Ns."), "twice"),
        "metadata of doubled lists": (raw_ours({"a": laughs(30)}), "more than"),
        "metadata that repeat a text": (raw_ours({"a": ["\x1b" * 400_000] * 15_000}), "characters"),
        "metadata that repeat a key": (raw_ours({"a": [{"\x1b" * 400_000: 0}] * 9_000}), "characters"),
    }


def _storages() -> dict[str, tuple[bytes, str]]:
    """One storage of a megabyte under a thousand names, and under more names than are read at all."""
    numbers, flags = torch.zeros(2**18), torch.zeros(2**20, dtype=torch.bool)
    shared = torch_file({f"w{i}": numbers for i in range(1000)})
    return {
        "storage shared by 1,000": (shared, "again and again"),
        "storage shared by 1,000, misaligned": (_repacked(shared), "again and again"),
        "storage of truth shared by 1,000": (torch_file({f"w{i}": flags for i in range(1000)}), "again and again"),
        "storage shared by 3,000": (torch_file({f"w{i}": numbers for i in range(3000)}), "holds 3,000 tensors"),
    }


def _training_states() -> dict[str, tuple[bytes, str]]:
    shared = torch.zeros(2**17, dtype=torch.float64)
    half = torch.zeros(2, dtype=torch.bfloat16)
    weights = dict(small_model("bos", dtype="float32").state_dict())
    plain = safetensors.write(Contents(weights, {}, TrainingState({"m": np.zeros(2, np.float16)}, {})))
    return {
        "training arrays that share": (_resumable({f"m{i}": shared for i in range(1000)}), "again and again"),
        "training array in bfloat16": (_resumable({"m": half}), "as bfloat16"),
        "training array in bfloat16, safetensors": (_relabelled(plain, "F16", "BF16"), "as bfloat16"),
    }


def _resumable(arrays: dict[str, torch.Tensor]) -> bytes:
    weights = dict(small_model("bos", dtype="float32").state_dict())
    state: dict[str, Any] = {"arrays": arrays, "values": {}}
    return torch_file({"format": pt.FORMAT, "metadata": {}, "state_dict": weights, "training_state": state})


def _relabelled(data: bytes, old: str, new: str) -> bytes:
    """A safetensors file that says another dtype of the same size."""
    (length,) = struct.unpack("<Q", data[:8])
    fields = json.loads(data[8 : 8 + length])
    for entry in fields.values():
        if entry.get("dtype") == old:
            entry["dtype"] = new
    return header(fields, data[8 + length :])


def _repacked(data: bytes) -> bytes:
    """The same records without torch's alignment."""
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        return archive({name: old.read(name) for name in old.namelist()})
