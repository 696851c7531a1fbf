"""Writing a checkpoint: weights, the facts that travel with them, and fingerprints of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from counting_interp.models.checkpoint import pt, safetensors
from counting_interp.models.checkpoint.contents import (
    FORMAT_VERSION,
    MAX_FILE_BYTES,
    Contents,
    TrainingState,
    check_metadata,
)
from counting_interp.models.checkpoint.safetensors import CODES, digest, from_array
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError, Refused
from counting_interp.util.files import write_atomically
from counting_interp.util.plain_json import canonical, plain
from counting_interp.util.text import installed_versions

_ARRAY_DTYPES = {str(dtype).removeprefix("torch.") for dtype in CODES} - {"bfloat16"}
_PACKAGES = ("counting-interp", "numpy", "torch", "transformer-lens")


def save(model: CountingTransformer, path: str | Path, *, training_state: TrainingState | None = None) -> None:
    """Write a checkpoint atomically: `.safetensors` by its ending, else the format of torch.save; see `to_bytes`."""
    form = "safetensors" if Path(path).suffix == ".safetensors" else "pt"
    write_atomically(path, to_bytes(model, form, training_state=training_state))


def to_bytes(model: CountingTransformer, form: str = "pt", *, training_state: TrainingState | None = None) -> bytes:
    """The bytes of a checkpoint. The same model gives the same bytes.

    Args:
        model: with its `metadata`, which must be JSON-like (NaN becomes None).
        form: `pt` or `safetensors`.
        training_state: what a trainer needs to resume; `load` passes over it.

    Raises:
        InterpError: the bytes could not be read back: too many of them, or metadata of the wrong kind.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if training_state is not None:
        training_state = _storable(training_state)
    metadata = plain(model.metadata) | {
        "format_version": FORMAT_VERSION,
        "config": model.config.to_dict(),
        "versions": installed_versions(_PACKAGES),
    }
    contents = Contents(tensors, metadata, training_state)
    metadata |= fingerprints(contents)
    container = {"pt": pt, "safetensors": safetensors}[form]
    data = container.write(contents)
    _check_readable(data, container.read, metadata)
    return data


def _check_readable(data: bytes, read: Callable[[bytes], Contents], metadata: dict[str, Any]) -> None:
    """What could not be read back is not written."""
    if len(data) > MAX_FILE_BYTES:
        raise InterpError(f"the checkpoint would take {len(data):,} bytes; at most {MAX_FILE_BYTES:,} can be read back")
    try:
        read(data)
        check_metadata(metadata)
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
    rest = digest(arrays, canonical([facts, None if state is None else state.values]))
    return {"sha256": weights, "rest_sha256": rest}
