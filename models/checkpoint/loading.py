"""Reading a checkpoint: bytes, container, numbers, configuration, model, each checked before the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.checkpoint import pt, safetensors
from models.checkpoint.contents import FORMAT_VERSION, Contents, Refused, TrainingState
from models.checkpoint.saving import fingerprints
from models.checkpoint.source import read_bytes
from models.checkpoint.weights import check_numbers, check_shapes
from models.config import CountingConfig
from models.errors import CheckpointError, printable
from models.transformer import CountingTransformer


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


def load_training_state(path: str | Path) -> TrainingState | None:
    """What `save(..., training_state=...)` stored, bit for bit; None where the file cannot be resumed."""
    return read(path).training_state


def read(path: str | Path, *, check_hash: bool = True, **assume: Any) -> Checkpoint:
    """Everything in a checkpoint.

    Args:
        path: `.pt` or `.safetensors`, told apart by content.
        check_hash: refuse a file whose fingerprint does not hold; False loads it all the same.
        assume: settles what a bare state_dict does not say (`mixing`, `softmax`, `L`, `n_layers`).

    Raises:
        CheckpointError: for whatever is wrong with the file, and nothing else.
    """
    try:
        contents = _contents(read_bytes(path))
        check_numbers(contents.tensors)
        if contents.metadata is None:
            raise Refused("carries no configuration; write it with model.save")
        return _ours(contents, contents.metadata, check_hash)
    except Refused as refusal:
        raise CheckpointError(path, str(refusal)) from None


def _contents(data: bytearray) -> Contents:
    if data[:4] == b"PK\3\4":
        return pt.read(data)
    if safetensors.looks_like(data):
        return safetensors.read(data)
    raise Refused(f"is {_guess(data)}, not a checkpoint; give a .pt or .safetensors file")


def _guess(data: bytearray) -> str:
    head = bytes(data[:64])
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


def _ours(contents: Contents, metadata: dict[str, Any], check_hash: bool) -> Checkpoint:
    found = metadata.get("format_version")
    if found != FORMAT_VERSION:
        raise Refused(
            f"has format version {printable(repr(found), 20)}; this program reads {FORMAT_VERSION}, update it"
        )
    holds = fingerprints(contents) == {name: metadata.get(name) for name in ("sha256", "rest_sha256")}
    if check_hash and not holds:
        raise Refused("was changed after it was written: its sha256 does not hold; get a fresh copy")
    fields = metadata.get("config")
    if not isinstance(fields, dict):
        raise Refused("has metadata without a configuration; write it again with model.save")
    try:
        config = CountingConfig.from_dict(fields)
    except (ValueError, TypeError) as error:
        raise Refused(f"has an impossible configuration: {printable(str(error))}") from None
    check_shapes(contents.tensors, config)
    kind = str(next(iter(contents.tensors.values())).dtype)
    if kind != f"torch.{config.dtype}":
        raise Refused(f"says its weights are {config.dtype}, but they are {kind}; write it again with model.save")
    model = CountingTransformer(config, dict(contents.tensors), metadata)
    return Checkpoint(model, contents.training_state, holds)
