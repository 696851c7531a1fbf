"""Reading a checkpoint: path, bytes, container, numbers, configuration, model, each checked before the next."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from counting_interp.data import zoo_names, zoo_path
from counting_interp.models.checkpoint import pt, safetensors
from counting_interp.models.checkpoint.bare import UNUSED, candidates, most_plausible, recognise, without_prefixes
from counting_interp.models.checkpoint.contents import (
    FORMAT_VERSION,
    MAX_FILE_BYTES,
    Contents,
    TrainingState,
    check_metadata,
    check_numbers,
    check_shapes,
)
from counting_interp.models.checkpoint.saving import fingerprints
from counting_interp.models.config import ACTIVATIONS, MIXINGS, CountingConfig
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import CheckpointError, Refused, printable, quoted

ASSUMABLE = ("mixing", "softmax", "T", "L", "d", "p", "n_layers", "n_classes", "activation", "causal")


@dataclass(frozen=True)
class Checkpoint:
    """A file that was read.

    Attributes:
        model: with `metadata` as the file has them.
        training_state: where the file can be resumed.
        hash_holds: None where the file carries no fingerprint (the published layout).
    """

    model: CountingTransformer
    training_state: TrainingState | None
    hash_holds: bool | None


def load(path: str | Path, *, check_hash: bool = True, **assume: Any) -> CountingTransformer:
    """The model in a checkpoint of ours or of the paper's authors; see `read`."""
    return read(path, check_hash=check_hash, **assume).model


def read(path: str | Path, *, check_hash: bool = True, **assume: Any) -> Checkpoint:
    """Everything in a checkpoint.

    Args:
        path: `.pt` or `.safetensors`, distinguished by content; or the name of a bundled checkpoint.
        check_hash: refuse a file whose fingerprint does not hold; False loads it all the same.
        assume: settles what a bare state_dict does not say: `mixing`, `softmax`, `T`, `L`, `n_layers`, ... What is
            left open is inferred, and `model.metadata["assumed"]` says what was taken, why, and how sure that is.

    Raises:
        CheckpointError: for whatever is wrong with the file, and nothing else.
        ValueError: for an assumption that makes no sense for any file.
    """
    assume = _checked_assumptions(assume)
    try:
        data = read_bytes(_bundled(path) or path)
    except Refused as refusal:
        raise CheckpointError(path, str(refusal)) from None
    return from_bytes(data, path, check_hash=check_hash, **assume)


def from_bytes(data: bytes, name: str | Path = "checkpoint", *, check_hash: bool = True, **assume: Any) -> Checkpoint:
    """Everything in the bytes of a checkpoint; errors call it `name`. See `read`."""
    assume = _checked_assumptions(assume)
    try:
        contents = _contents(data)
        if not contents.tensors:
            raise Refused("holds no tensors; save model.state_dict(), or use model.save")
        if contents.metadata is None:
            return Checkpoint(_imported(contents.tensors, assume), None, None)
        return _ours(contents, contents.metadata, assume, check_hash)
    except Refused as refusal:
        raise CheckpointError(name, str(refusal)) from None


def _bundled(path: str | Path) -> Path | None:
    """The bundled checkpoint of this name; a file of the same name goes before it."""
    return None if os.path.lexists(path) or str(path) not in zoo_names() else zoo_path(str(path))


def _contents(data: bytes) -> Contents:
    if data[:4] == b"PK\3\4":
        return pt.read(data)
    if safetensors.looks_like(data):
        return safetensors.read(data)
    raise Refused(f"is {_guess(data)}, not a checkpoint; give a .pt or .safetensors file")


def _guess(data: bytes) -> str:
    head = data[:64]
    kinds = {
        b"version https://git-lfs": "a Git LFS pointer (run `git lfs pull`)",
        b"\x80": "a bare pickle or a torch.save file from before torch 1.6 (save it again with a newer torch)",
        b"\x1f\x8b": "gzip-compressed (unpack it first)",
        b"\x93NUMPY": "a numpy array",
        b"\x89HDF": "an HDF5 file",
        b"PK": "an empty or split zip archive",
    }
    if not data:
        return "empty"
    known = next((kind for magic, kind in kinds.items() if head.startswith(magic)), None)
    return known or ("text" if head.decode("latin-1").isprintable() or head.isascii() else "of an unknown kind")


def _checked_assumptions(assume: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in assume.items() if value is not None}
    for name, value in given.items():
        if name not in ASSUMABLE:
            raise ValueError(f"what can be assumed of a file is {', '.join(ASSUMABLE)}; got {name!r}")
        words = {"mixing": MIXINGS, "activation": ACTIVATIONS}.get(name, ())
        wanted: type = str if words else bool if name in ("softmax", "causal") else int
        if type(value) is not wanted or (words and value not in words):
            expected = " or ".join(words) if words else wanted.__name__
            raise ValueError(f"{name} must be {expected}, got {value!r}")
    return given


def _ours(contents: Contents, metadata: dict[str, Any], assume: dict[str, Any], check_hash: bool) -> Checkpoint:
    """A file that `save` wrote: its own metadata say what it is, and must be right."""
    version = metadata.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise Refused(f"has format version {quoted(version, 20)}; this program reads {FORMAT_VERSION}, update it")
    holds = fingerprints(contents) == {name: metadata.get(name) for name in ("sha256", "rest_sha256")}
    if check_hash and not holds:
        raise Refused("was changed after it was written: its sha256 does not hold; get a fresh copy")
    metadata = check_metadata(metadata)
    try:
        config = CountingConfig.from_dict(metadata["config"])
    except (ValueError, TypeError) as error:
        raise Refused(f"has an impossible configuration: {printable(str(error))}") from None
    for name, value in assume.items():
        if getattr(config, name) != value:
            raise Refused(
                f"says {name}={getattr(config, name)!r} itself; {name}={value!r} contradicts it, leave it out"
            )
    check_numbers(contents.tensors)
    check_shapes(contents.tensors, config)
    kind = str(next(iter(contents.tensors.values())).dtype)
    if kind != f"torch.{config.dtype}":
        raise Refused(f"says its weights are {config.dtype}, but they are {kind}; write it again with model.save")
    return Checkpoint(CountingTransformer(config, contents.tensors, metadata), contents.training_state, holds)


def _imported(tensors: dict[str, Tensor], assume: dict[str, Any]) -> CountingTransformer:
    """A bare state_dict, ours or the published one: shapes say most of it, trying says the rest."""
    tensors = without_prefixes(tensors)
    bare = recognise(tensors)
    check_numbers({name: tensor for name, tensor in tensors.items() if name not in UNUSED})
    model, assumed = most_plausible(candidates(bare, assume))
    notes = list(bare.notes)
    if bare.embeddings.dtype in (torch.float16, torch.bfloat16):
        notes.append("half-precision weights were widened to float32, which is exact")
    if len(bare.stacks) == 2 and model.config.n_layers == 1:
        notes.append("the published two-layer code never uses its first block: read as the one-layer model it computes")
    if assume:
        notes.append("as given: " + ", ".join(f"{name}={value}" for name, value in sorted(assume.items())))
    model.metadata = {"layout": "published" if bare.published else "bare", "assumed": assumed + notes}
    if bare.published:
        model.metadata["task"] = {"sampler": "published"}
    return model


_NEXT = "give a .pt or .safetensors file"


def read_bytes(path: str | Path) -> bytes:
    """The whole file, at most MAX_FILE_BYTES. Opened without blocking, so that a FIFO cannot hold us."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Refused(_why_not(path, error)) from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise Refused(f"is {_kind(info.st_mode)}, not a regular file; {_NEXT}")
        if info.st_size > MAX_FILE_BYTES:
            raise Refused(f"is {info.st_size:,} bytes long; checkpoints of more than {MAX_FILE_BYTES:,} are not read")
        data = os.read(handle, info.st_size + 1)  # at once, so that it is in memory once
        while len(data) <= info.st_size and (more := os.read(handle, info.st_size + 1 - len(data))):
            data += more
        if len(data) > info.st_size:
            raise Refused("grows while it is read; copy it first")
        return data
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror}); check the disk") from None
    finally:
        os.close(handle)


def _why_not(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            return f"is a link to a file that does not exist; {_NEXT}"
        near = get_close_matches(str(path), zoo_names(), n=1, cutoff=0.7)
        return f"does not exist; {_NEXT}" + (f", or the bundled {near[0]}" if near else "")
    if isinstance(error, PermissionError):
        return "may not be read by you; change its permissions or copy it"
    if isinstance(error, OSError):
        return f"cannot be opened ({error.strerror}); {_NEXT}"
    return f"is no possible file name; {_NEXT}"


def _kind(mode: int) -> str:
    kinds = {
        "a directory": stat.S_ISDIR,
        "a pipe": stat.S_ISFIFO,
        "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
        "a socket": stat.S_ISSOCK,
    }
    return next((name for name, test in kinds.items() if test(mode)), "something unusual")
