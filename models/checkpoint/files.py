"""Reading and writing checkpoints: path, bytes, container, configuration, model. Each step is checked."""

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
from counting_interp.models.checkpoint.safetensors import CODES, digest, from_array
from counting_interp.models.config import ACTIVATIONS, MIXINGS, CountingConfig
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import CheckpointError, InterpError, Refused, printable, quoted
from counting_interp.util.files import write_atomically
from counting_interp.util.plain_json import canonical, plain
from counting_interp.util.text import installed_versions

ASSUMABLE = ("mixing", "softmax", "T", "L", "d", "p", "n_layers", "n_classes", "activation", "causal")
_ARRAY_DTYPES = {str(dtype).removeprefix("torch.") for dtype in CODES} - {"bfloat16"}
_PACKAGES = ("counting-interp", "numpy", "torch", "transformer-lens")
_NEXT = "give a .pt or .safetensors file"


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a file.

    Attributes:
        model: its `metadata` are those of the file.
        training_state: None if the file cannot be resumed.
        hash_holds: None if the file has no fingerprint.
    """

    model: CountingTransformer
    training_state: TrainingState | None
    hash_holds: bool | None


def save(model: CountingTransformer, path: str | Path, *, training_state: TrainingState | None = None) -> None:
    """Write a checkpoint atomically: as safetensors if the name ends so, else as torch.save does; see `to_bytes`."""
    form = "safetensors" if Path(path).suffix == ".safetensors" else "pt"
    write_atomically(path, to_bytes(model, form, training_state=training_state))


def to_bytes(model: CountingTransformer, form: str = "pt", *, training_state: TrainingState | None = None) -> bytes:
    """The bytes of a checkpoint. The same model gives the same bytes.

    Args:
        model: its `metadata` must be JSON-like (NaN becomes None).
        form: `pt` or `safetensors`.
        training_state: what a trainer needs to resume; `load` ignores it.

    Raises:
        InterpError: the bytes could not be read back: too many of them, or metadata of the wrong kind.
        ValueError: an array of the training state has a dtype that no checkpoint stores.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if training_state is not None:
        for name, array in training_state.arrays.items():
            if array.dtype.newbyteorder("=") != array.dtype or array.dtype.name not in _ARRAY_DTYPES:
                kinds = ", ".join(sorted(_ARRAY_DTYPES))
                raise ValueError(f"the array {name!r} is {array.dtype.str}; a checkpoint stores native {kinds}")
        training_state = TrainingState(dict(training_state.arrays), plain(training_state.values))
    metadata = plain(model.metadata) | {
        "format_version": FORMAT_VERSION,
        "config": model.config.to_dict(),
        "versions": installed_versions(_PACKAGES),
    }
    contents = Contents(tensors, metadata, training_state)
    metadata |= fingerprints(contents)
    container = {"pt": pt, "safetensors": safetensors}[form]
    data = container.write(contents)
    if len(data) > MAX_FILE_BYTES:
        raise InterpError(f"the checkpoint would take {len(data):,} bytes; at most {MAX_FILE_BYTES:,} can be read back")
    try:
        container.read(data)
        check_metadata(metadata)
    except Refused as refusal:
        raise InterpError(f"the checkpoint was not written, as it {refusal}") from None
    return data


def fingerprints(contents: Contents) -> dict[str, str]:
    """`sha256` of the weights, which identifies the model, and `rest_sha256` of everything else in the file."""
    assert contents.metadata is not None
    weights = digest(contents.tensors)
    facts: dict[str, Any] = {**contents.metadata, "sha256": weights}
    facts.pop("rest_sha256", None)
    state = contents.training_state
    arrays = {} if state is None else {name: from_array(array) for name, array in state.arrays.items()}
    rest = digest(arrays, canonical([facts, None if state is None else state.values]))
    return {"sha256": weights, "rest_sha256": rest}


def load(path: str | Path, *, check_hash: bool = True, **assume: Any) -> CountingTransformer:
    """The model in a checkpoint of ours or of the paper's authors; see `read`."""
    return read(path, check_hash=check_hash, **assume).model


def read(path: str | Path, *, check_hash: bool = True, **assume: Any) -> Checkpoint:
    """Everything in a checkpoint.

    Args:
        path: of a `.pt` or `.safetensors` file, which are told apart by content; or the name of a bundled checkpoint.
        check_hash: refuse a file whose fingerprint does not hold; False loads it anyway.
        assume: fields that a bare state_dict leaves open: `mixing`, `softmax`, `T`, `L`, `n_layers`, ... Other open
            fields are inferred, and `model.metadata["assumed"]` says which, why, and how sure that is.

    Raises:
        CheckpointError: anything is wrong with the file.
        ValueError: an assumption makes no sense for any file.
    """
    assume = _checked_assumptions(assume)
    bundled = not os.path.lexists(path) and str(path) in zoo_names()  # a file of the same name takes precedence
    try:
        data = _read_bytes(zoo_path(str(path)) if bundled else path)
    except Refused as refusal:
        raise CheckpointError(path, str(refusal)) from None
    return from_bytes(data, path, check_hash=check_hash, **assume)


def from_bytes(data: bytes, name: str | Path = "checkpoint", *, check_hash: bool = True, **assume: Any) -> Checkpoint:
    """Everything in the bytes of a checkpoint, which errors call `name`. See `read`."""
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


def _contents(data: bytes) -> Contents:
    if data[:4] == b"PK\3\4":
        return pt.read(data)
    if safetensors.looks_like(data):
        return safetensors.read(data)
    kinds = {
        b"version https://git-lfs": "a Git LFS pointer (run `git lfs pull`)",
        b"\x80": "a bare pickle or a torch.save file from before torch 1.6 (save it again with a newer torch)",
        b"\x1f\x8b": "gzip-compressed (unpack it first)",
        b"\x93NUMPY": "a numpy array",
        b"\x89HDF": "an HDF5 file",
        b"PK": "an empty or split zip archive",
    }
    head = data[:64]
    is_text = head.decode("latin-1").isprintable() or head.isascii()
    unknown = "empty" if not data else "text" if is_text else "of an unknown kind"
    kind = next((kind for magic, kind in kinds.items() if head.startswith(magic)), unknown)
    raise Refused(f"is {kind}, not a checkpoint; {_NEXT}")


def _checked_assumptions(assume: dict[str, Any]) -> dict[str, Any]:
    """The assumptions that are not None, with values that some file could have."""
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
    """A file that `save` wrote: its metadata describe the model and must be right."""
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
        if (stored := getattr(config, name)) != value:
            raise Refused(f"says {name}={stored!r} itself; {name}={value!r} contradicts it, leave it out")
    check_numbers(contents.tensors)
    check_shapes(contents.tensors, config)
    dtype = str(next(iter(contents.tensors.values())).dtype)
    if dtype != f"torch.{config.dtype}":
        raise Refused(f"says its weights are {config.dtype}, but they are {dtype}; write it again with model.save")
    return Checkpoint(CountingTransformer(config, contents.tensors, metadata), contents.training_state, holds)


def _imported(tensors: dict[str, Tensor], assume: dict[str, Any]) -> CountingTransformer:
    """The model in a bare state_dict: shapes settle most of the configuration, trying it out settles the rest."""
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


def _read_bytes(path: str | Path) -> bytes:
    """The whole file, at most MAX_FILE_BYTES. Opened without blocking, so that a FIFO cannot hold us."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Refused(_why_not_opened(path, error)) from None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            kinds = {"a directory": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a device": stat.S_ISCHR}
            kind = next((kind for kind, test in kinds.items() if test(info.st_mode)), "something unusual")
            raise Refused(f"is {kind}, not a regular file; {_NEXT}")
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


def _why_not_opened(path: str | Path, error: OSError | ValueError) -> str:
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
