"""Files made to break a reader, built in code: name -> (bytes, what the refusal must say)."""

from __future__ import annotations

import collections
import gzip
import io
import json
import pickle
import struct
import zipfile
from typing import Any

import numpy as np
import torch

from tests.helpers import small_model
from tests.models.checkpoint.bombs import every_bomb
from tests.models.checkpoint.craft import (
    NASTY,
    Shell,
    archive,
    config_text,
    cycle,
    deep,
    flipped,
    good_records,
    header,
    laughs,
    one_tensor,
    ours,
    patched_directory,
    raw_ours,
    rebuilt_by,
    state,
    tensor_pickle,
    torch_file,
    with_pickle,
)


def not_checkpoints() -> dict[str, tuple[bytes, str]]:
    legacy = torch_file(state(), _use_new_zipfile_serialization=False)
    npy = io.BytesIO()
    np.save(npy, np.ones(3))
    return {
        "empty": (b"", "is empty"),
        "one byte": (b"P", "is text"),
        "text": (b"hello \x1b[31mworld\n", "is text"),
        "html": (b"<html><script>alert(1)</script>", "is text"),
        "noise": (bytes(range(128, 256)), "pickle|unknown kind"),
        "zeros": (bytes(1000), "text|unknown kind"),
        "git lfs pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        "gzip": (gzip.compress(torch_file(state())), "unpack it first"),
        "numpy": (npy.getvalue(), "a numpy array"),
        "legacy torch": (legacy, "before torch 1.6"),
        "bare pickle": (pickle.dumps({"a": 1}), "a bare pickle"),
        "empty zip": (archive({}), "empty or split zip"),
        "zip of text": (archive({"folder/readme.txt": b"hello"}), "not one that torch.save writes"),
    }


def archives() -> dict[str, tuple[bytes, str]]:
    good = torch_file(state())
    records = good_records()
    plain = archive(records)
    big = bytes(10**8)
    many = archive({f"archive/data/{i}": b"" for i in range(5000)})
    overlapping = archive({**records, **{f"archive/data/x{i}": bytes(2000) for i in range(50)}})
    return {
        "cut in the middle": (good[: len(good) // 2], "cut off"),
        "cut at the end": (good[:-1], "cut off"),
        "something appended": (good + b"\0", "appended"),
        "deflated": (archive(records, zipfile.ZIP_DEFLATED), "compressed or encrypted|inflate"),
        "deflated storage of 100 MB": (
            archive({**records, "archive/data/0": big}, zipfile.ZIP_DEFLATED),
            "inflate beyond the file",
        ),
        "lzma": (archive(records, zipfile.ZIP_LZMA), "compressed or encrypted|inflate"),
        "encrypted flag": (patched_directory(plain, 8, b"\1\0"), "compressed or encrypted"),
        "size of 4 GB": (patched_directory(plain, 20, b"\xfe\xff\xff\xff" * 2), "inflate beyond the file"),
        "offset of 4 GB": (patched_directory(plain, 42, b"\xfe\xff\xff\xff"), "damaged"),
        "name of 64 kB": (patched_directory(plain, 28, b"\xff\xff"), "damaged|odd name"),
        "directory of 1 GB": (plain[:-10] + struct.pack("<I", 2**30) + plain[-6:], "records"),
        "65,000 entries": (plain[:-12] + b"\xe8\xfd" + plain[-10:], "an archive of 65,000 records"),
        "5,000 records": (many, "an archive of 5,000 records"),
        "records over each other": (overlapping.replace(struct.pack("<I", 2000), struct.pack("<I", 20000)), "inflate"),
        "name that climbs": (archive({**records, "archive/../../x": b"1"}), "odd name"),
        "absolute name": (archive({"/etc/passwd": b"1"}), "odd name"),
        "name that steers": (archive({**records, "archive/\x1b[31m": b"1"}), "odd name"),
        "two folders": (archive({**records, "other/data.pkl": b"1"}), "several folders"),
        "TorchScript": (archive({**records, "archive/constants.pkl": b"1"}), "TorchScript"),
        "big-endian": (archive({**records, "archive/byteorder": b"big"}), "big-endian"),
        "failed checksum": (flipped(good, records["archive/data/0"][:64]), "checksum fails"),
        "missing storage": (
            archive({k: v for k, v in records.items() if k != "archive/data/0"}),
            "lacks tensor record",
        ),
        "short storage": (archive({**records, "archive/data/0": bytes(4)}), "claims 81 numbers"),
    }


def pickles(marker: str) -> dict[str, tuple[bytes, str]]:
    shell = Shell(f"touch {marker}")
    evaluate = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x01\x31\x85R."
    bytearrays = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x10\x85R."
    return {
        "bare shell pickle": (pickle.dumps(shell), "a bare pickle"),
        "shell in a state_dict": (torch_file({**state(), "x": shell}), "names code to run .posix.system"),
        "shell, protocol 4": (torch_file({"x": shell}, pickle_protocol=4), "names code to run .posix.system"),
        "eval": (with_pickle(evaluate), "names code to run .builtins.eval"),
        "bytearray of 64 GB": (with_pickle(bytearrays), "names code to run .builtins.bytearray"),
        "whole module": (torch_file(torch.nn.Linear(2, 3)), "names code to run .torch.nn.modules.linear.Linear"),
        "namespace": (torch_file({"state_dict": state(), "args": collections.Counter(a=1)}), "collections.Counter"),
        "global that steers": (with_pickle(b"\x80\x02c\x1b[31m\nx\n)R."), "names code to run"),
        "reduce of a list": (with_pickle(b"\x80\x02](tR."), "damaged pickle"),
        "empty stack": (with_pickle(b"\x80\x020."), "instruction"),
        "underflow": (with_pickle(b"\x80\x02s."), "damaged pickle"),
        "no mark": (with_pickle(b"\x80\x02t."), "damaged pickle"),
        "unknown memo": (with_pickle(b"\x80\x02h\x05."), "damaged pickle"),
        "no stop": (with_pickle(b"\x80\x02}"), "pickle"),
        "empty pickle": (with_pickle(b""), "pickle"),
        "unknown opcode": (with_pickle(b"\x80\x02\xff."), "damaged pickle"),
        "persistent text": (with_pickle(b"\x80\x02Pabc\n."), "instruction"),
        "huge integer": (with_pickle(b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b"."), "beyond 64 bits"),
        "4 GB string": (with_pickle(b"\x80\x02X\xff\xff\xff\xffabc."), "damaged pickle"),
        "endless repetition": (torch_file({"a": laughs(30)}), "other than a tensor under 'a'"),
        "cycle": (torch_file({"a": cycle()}), "other than a tensor"),
        "deep lists": (with_pickle(deep(90_000)), "more than"),
        "deep tuples as a key": (with_pickle(b"\x80\x02}" + b")" + b"\x85" * 90_000 + b"Ns."), "not names"),
        "long pickle": (with_pickle(b"\x80\x02" + b"N" * 2**21 + b"."), "describes its content in"),
        "many steps": (with_pickle(b"\x80\x02" + b"N" * 300_000 + b"."), "steps"),
        "duplicate key": (with_pickle(b"\x80\x02}(K\x01K\x02K\x01K\x03u."), "twice"),
    }


def tensors() -> dict[str, tuple[bytes, str]]:
    weight = torch.ones(9, 9)
    huge = torch.ones(1).expand(10**6, 10**6)
    overlap = torch.ones(81).as_strided((9, 9), (1, 1))
    return {
        "10^12 floats in 4 bytes": (torch_file(state(fc1__weight=huge)), "claims 1,000,000,000,000 numbers"),
        "overlapping strides": (torch_file(state(fc1__weight=overlap)), "overlaps itself"),
        "view of a larger tensor": (torch_file(state(fc1__weight=torch.ones(100)[:9].view(1, 9))), "view of a larger"),
        "offset": (with_pickle(tensor_pickle("K\x01(K\x09K\x09t(K\x09K\x01t\x89}")), "view of a larger"),
        "negative shape": (
            with_pickle(tensor_pickle("K\0(J\xff\xff\xff\xffK\x01t(K\x09K\x01t\x89}")),
            "impossible shape",
        ),
        "shape of floats": (with_pickle(tensor_pickle("K\0(G?\xf0\0\0\0\0\0\0t(K\x01t\x89}")), "impossible shape"),
        "shape of nothing": (with_pickle(tensor_pickle("K\0NN\x89}")), "impossible shape"),
        "nine axes": (
            with_pickle(tensor_pickle("K\0(" + "K\x01" * 9 + "t(" + "K\x01" * 9 + "t\x89}")),
            "impossible shape",
        ),
        "sparse": (torch_file(state(fc1__weight=torch.ones(1, 9).to_sparse())), "sparse tensors"),
        "sparse rows": (rebuilt_by("_rebuild_sparse_csr_tensor"), "sparse tensors"),
        "meta": (torch_file(state(fc1__weight=torch.empty(1, 9, device="meta"))), "meta tensors"),
        "quantised": (rebuilt_by("_rebuild_qtensor"), "quantised tensors"),
        "complex": (torch_file(state(fc1__weight=torch.ones(1, 9, dtype=torch.complex64))), "complex tensors"),
        "integers": (torch_file(state(fc1__weight=torch.ones(1, 9, dtype=torch.int64))), "floating-point"),
        "booleans": (torch_file(state(fc1__weight=torch.ones(1, 9) > 0)), "floating-point"),
        "float8": (torch_file(state(fc1__weight=torch.ones(1, 9).to(torch.float8_e4m3fn))), "names code|pickle"),
        "mixed precisions": (torch_file(state(fc1__weight=torch.ones(1, 9).double())), "mixes"),
        "NaN": (torch_file(state(fc1__weight=torch.full((1, 9), float("nan")))), "NaN or infinite"),
        "infinity": (torch_file(state(fc1__weight=torch.full((1, 9), -float("inf")))), "NaN or infinite"),
        "half that overflows": (torch_file({k: (v * 1e9).half() for k, v in state().items()}), "NaN or infinite|mixes"),
        "double of 1e300": (torch_file({k: v.double() * 1e300 for k, v in state().items()}), "beyond 3.4e.38"),
        "one infinite number in our own": (ours(weights={"embed.W_E": weight[:8, :6] / 0}), "NaN or infinite"),
    }


def models() -> dict[str, tuple[bytes, str]]:
    return {
        "a list": (torch_file([1, 2]), "holds a list"),
        "a tensor": (torch_file(torch.ones(3)), "holds a Tensor"),
        "a string": (torch_file(NASTY), "holds a str"),
        "nothing": (torch_file({}), "holds no tensors"),
        "keys of numbers": (torch_file({1: torch.ones(2)}), "under 1"),
        "a resnet": (torch_file({"conv1.weight": torch.ones(3)}), "not a counting model: it holds 'conv1.weight'"),
        "a nasty name": (torch_file({NASTY: torch.ones(3)}), "which no counting model has"),
        "a nasty name among good ones": (torch_file(state(**{NASTY: torch.ones(3)})), "which no counting model has"),
        "no read-out": (torch_file(state(fc2__weight=None, fc2__bias=None)), "mlp.b_out are missing"),
        "no keys": (torch_file(state(token_mixer__K=None)), "lacks 'blocks.0.attn.W_K'"),
        "turned embeddings": (torch_file(state(semantic_emb__weight=torch.ones(9, 4))), "shape"),
        "turned feed-forward": (torch_file(state(fc1__weight=torch.ones(9, 1))), "shape"),
        "embeddings in 3 d": (torch_file(state(semantic_emb__weight=torch.ones(3, 3, 9))), "not a table"),
        "scalar bias": (torch_file(state(fc2__bias=torch.tensor(1.0))), "wrong number of axes"),
        "one class": (torch_file(state(fc2__bias=torch.ones(1), fc2__weight=torch.ones(1, 1))), "not a counting model"),
        "more positions than tokens": (
            torch_file(state(positional_emb__pe=torch.arange(50).view(1, 50))),
            "L must be at most T|n_classes must be",
        ),
        "mixer not square": (
            torch_file(state(token_mixer__Q=None, token_mixer__K=None, token_mixer__A=torch.ones(5, 4))),
            "not a counting model",
        ),
        "two names for one": (torch_file({**state(), "module.fc1.bias": torch.ones(1)}), "twice"),
        "random embeddings of two layers": (
            torch_file({"layer1.semantic_emb.weight": torch.ones(2)}),
            "does not contain",
        ),
        "no embeddings for $": (ours(weights={"embed.W_E": torch.ones(7, 6)}), "shape .7, 6.; .* asks for .8, 6."),
        "block missing": (ours(config={"n_layers": 2}), "lacks 'blocks.1"),
        "unknown weight": (ours(weights={NASTY[:99]: torch.ones(2)}), "which a bos model of 1 layers does not"),
        "a wrong dtype": (ours(config={"dtype": "float64"}), "says its weights are float64"),
    }


def configurations() -> dict[str, tuple[bytes, str]]:
    full = small_model("bos").config.to_dict()
    wrong: dict[str, dict[str, Any]] = {
        "T a text": {"T": "32"},
        "T true": {"T": True},
        "T a float": {"T": 7.0},
        "T huge": {"T": 10**9},
        "T one": {"T": 1},
        "L zero": {"L": 0},
        "L over T": {"L": 8, "n_classes": 8},
        "d negative": {"d": -6},
        "p zero": {"p": 0},
        "softmax a number": {"softmax": 1},
        "mixing unknown": {"mixing": NASTY},
        "mixing a list": {"mixing": ["bos"]},
        "mixing a table": {"mixing": {"a": 1}},
        "dtype unknown": {"dtype": "float8"},
        "three layers": {"n_layers": 3},
        "wrong classes": {"n_classes": 3},
        "seed negative": {"seed": -1},
        "unknown field": {NASTY: 1},
        "missing field": {"d": None},
        "too many weights": {"T": 4096, "d": 4096, "p": 4096},
    }
    files = {f"config, {name}": (ours(config=change), "impossible configuration") for name, change in wrong.items()}
    for name, value in {"NaN": float("nan"), "infinity": float("inf"), "2^70": 2**70, "object": b"bytes"}.items():
        files[f"config with {name}"] = (
            raw_ours({"format_version": 1, "config": {**full, "T": value}}),
            "JSON cannot carry|beyond 64 bits|instruction|names code",
        )
    return files | {
        "pickle edited in place": (ours().replace(b"n_layers", b"n_lawyer"), "checksum fails"),
        "metadata a list": (raw_ours([1, 2]), "lacks its metadata"),
        "metadata a text": (raw_ours(NASTY), "lacks its metadata"),
        "no config": (raw_ours({"format_version": 1}), "sha256 does not hold"),
        "version 2": (ours(format_version=2), "format version 2"),
        "version true": (ours(format_version=True), "format version True"),
        "version a text": (ours(format_version=NASTY), "format version"),
        "no version": (ours(format_version=None), "format version None"),
        "no hash": (ours(sha256=None), "sha256 does not hold"),
        "wrong hash": (ours(sha256="0" * 64), "sha256 does not hold"),
        "hash of another kind": (ours(sha256=[1]), "sha256 does not hold"),
        "deep metadata": (raw_ours(json.loads("[" * 100 + "]" * 100)), "levels|lacks its metadata"),
        "deep JSON": (header(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested deeper|valid JSON|levels"),
        "key twice": (config_text('"T":7', '"T":7,"T":7'), "'T' twice"),
        "JSON with NaN": (config_text('"T":7', '"T":NaN'), "NaN"),
        "JSON with 1e400": (config_text('"T":7', '"T":1e400'), "1e400"),
        "JSON with a long integer": (config_text('"T":7', '"T":' + "9" * 5000), "valid JSON|beyond 64 bits"),
        "JSON cut off": (config_text("}", ""), "valid JSON"),
        "metadata changed": (config_text('"seed":0', '"seed":1'), "sha256 does not hold"),
    }


def metadata() -> dict[str, tuple[bytes, str]]:
    """Fields of the wrong kind under a hash that holds."""
    wrong: dict[str, dict[str, Any]] = {
        "task a text": {"task": "text"},
        "step a text": {"step": "5"},
        "step beyond 2^53": {"step": 2**63},
        "accuracy a text": {"accuracy": "0.9"},
        "sampler a number": {"training": {"sampler": 3}},
        "repair a number": {"repair": 3},
        "history of unequal lengths": {"history": {"epochs": [1, 2], "losses": [], "accuracies": [0.1]}},
    }
    return {name: (ours(fields=fields), "metadata of the wrong kind") for name, fields in wrong.items()}


def safetensors_files() -> dict[str, tuple[bytes, str]]:
    good = ours(form="safetensors")
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    return {
        "header beyond the file": (header(b"{}", length=1000), "cut off"),
        "header of 2^63 bytes": (header(b"{}", length=2**63), "header of"),
        "header not JSON": (header(b"{hello\x1b[31m"), "not valid JSON"),
        "header not UTF-8": (header(b'{"\xff\xfe":1}'), "not valid JSON"),
        "no tensors": (header({}), "holds no tensors"),
        "entry a number": (header({"a": 1}), "damaged safetensors file .invalid JSON"),
        "entry with more": (one_tensor(extra=1), "not a counting model"),
        "unknown dtype": (one_tensor(dtype="F8_E4M3", shape=[8]), "as 'F8_E4M3', which is not read"),
        "dtype a list": (one_tensor(dtype=["F32"]), "invalid type: sequence"),
        "shape too large": (one_tensor(shape=[2**40]), "invalid shape"),
        "shape that overflows": (one_tensor(shape=[2**39, 2**39]), "overflow computing"),
        "shape negative": (one_tensor(shape=[-2]), "invalid value: integer `-2`"),
        "shape of truth": (one_tensor(shape=[True]), "invalid type: boolean"),
        "shape a text": (one_tensor(shape="22"), "invalid type: string"),
        "offsets beyond": (one_tensor(data_offsets=[0, 80]), "invalid shape, data type, or offset"),
        "offsets reversed": (one_tensor(data_offsets=[8, 0]), "invalid offset for tensor `embed.W_E`"),
        "offsets of three": (one_tensor(data_offsets=[0, 4, 8]), "invalid length 3"),
        "a gap": (one_tensor(bytes(12), data_offsets=[4, 12]), "invalid offset"),
        "an overlap": (header({"a": entry, "b": entry}, bytes(8)), "invalid offset"),
        "trailing bytes": (good + b"\0", "file not fully covered"),
        "cut": (good[:-1], "file not fully covered"),
        "one bit flipped": (good[:-1] + bytes([good[-1] ^ 1]), "sha256 does not hold"),
        "metadata of numbers": (header({"__metadata__": {"a": 1}, "a": entry}, bytes(8)), "malformed __metadata__"),
        "metadata a list": (header({"__metadata__": [], "a": entry}, bytes(8)), "malformed __metadata__"),
        "our metadata a number": (
            header({"__metadata__": {"counting-interp": "3"}, "a": entry}, bytes(8)),
            "not a table",
        ),
        "lone surrogate": (header({"embed.W_E\ud800": entry}, bytes(8)), "invalid JSON"),
        "lone surrogate in our own": (ours(weights={}, form="safetensors").replace(b"embed.W_E", b"\\ud800W_E"), ""),
    }


def every_file(marker: str) -> dict[str, tuple[bytes, str]]:
    groups = {
        "file": not_checkpoints(),
        "archive": archives(),
        "pickle": pickles(marker),
        "tensor": tensors(),
        "model": models(),
        "config": configurations(),
        "metadata": metadata(),
        "safetensors": safetensors_files(),
        "bomb": every_bomb(),
    }
    return {f"{group}: {name}": file for group, files in groups.items() for name, file in files.items()}
