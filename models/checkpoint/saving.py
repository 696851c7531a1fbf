"""Writing a checkpoint: weights, the facts that travel with them, and fingerprints of both."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from counting_interp.models.checkpoint import json_like, pt, safetensors
from counting_interp.models.checkpoint.contents import FORMAT_VERSION, MAX_FILE_BYTES, Contents, Refused, TrainingState
from counting_interp.models.checkpoint.metadata import checked as checked_metadata
from counting_interp.models.checkpoint.tensors import CODES, digest, from_array
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError
from counting_interp.util.files import write_atomically
from counting_interp.util.plain_json import plain

_ARRAY_DTYPES = {str(dtype).removeprefix("torch.") for dtype in CODES} - {"bfloat16"}
_PACKAGES = ("counting-interp", "numpy", "torch", "transformer-lens")


def save(model: CountingTransformer, path: str | Path, *, training_state: TrainingState | None = None) -> None:
    """Write a checkpoint atomically: `.safetensors` by its ending, else the format of torch.save.

    Args:
        model: with its `metadata`, which must be JSON-like (NaN becomes None).
        training_state: what a trainer needs to go on; `load` passes over it.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if training_state is not None:
        training_state = _storable(training_state)
    metadata = plain(model.metadata) | {
        "format_version": FORMAT_VERSION,
        "config": model.config.to_dict(),
        "versions": _versions(),
    }
    contents = Contents(tensors, metadata, training_state)
    metadata |= fingerprints(contents)
    write = safetensors.write if Path(path).suffix == ".safetensors" else pt.write
    data = write(contents)
    _check_readable(data, safetensors.read if write is safetensors.write else pt.read, metadata)
    write_atomically(path, data)


def _check_readable(data: bytes, read: Callable[[bytes], Contents], metadata: dict[str, Any]) -> None:
    """What could not be read back is not written."""
    if len(data) > MAX_FILE_BYTES:
        raise InterpError(f"the checkpoint would take {len(data):,} bytes; at most {MAX_FILE_BYTES:,} can be read back")
    try:
        read(data)
        checked_metadata(metadata)
    except Refused as refusal:
        raise InterpError(f"the checkpoint was not written, as it {refusal}") from None


def _storable(state: TrainingState) -> TrainingState:
    for name, array in state.arrays.items():
        if array.dtype.newbyteorder("=") != array.dtype or array.dtype.name not in _ARRAY_DTYPES:
            kinds = ", ".join(sorted(_ARRAY_DTYPES))
            raise ValueError(f"the array {name!r} is {array.dtype.str}; a checkpoint stores native {kinds}")
    return TrainingState(dict(state.arrays), plain(state.values))


def fingerprints(contents: Contents) -> dict[str, str]:
    """`sha256` of the weights, which names the model, and `rest_sha256` of everything else in the file."""
    assert contents.metadata is not None
    weights = digest(contents.tensors)
    facts: dict[str, Any] = {**contents.metadata, "sha256": weights}
    facts.pop("rest_sha256", None)
    state = contents.training_state
    arrays = {} if state is None else {name: from_array(array) for name, array in state.arrays.items()}
    rest = digest(arrays, json_like.dump([facts, None if state is None else state.values]))
    return {"sha256": weights, "rest_sha256": rest}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # run from a source tree that is not installed
            versions[name] = "unknown"
    return versions
