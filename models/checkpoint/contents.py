"""The contents of a checkpoint, whatever its container, and their checks.

Limits on what is read come first. Then the schema of the metadata: every field of `model.metadata` that the project
reads is declared here and has its declared type if it is present. Other fields may hold anything JSON-like. Then the
weights: finite numbers, in exactly the shapes of the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.util.errors import Refused, printable, quoted

FORMAT = "counting-interp"
FORMAT_VERSION = 1

MAX_FILE_BYTES = 64 * 2**20  # the largest model of the paper takes 0.7 MB, Adam's moments included
MAX_HEADER_BYTES = 2**20  # of a pickle or a JSON header: everything but the tensors
MAX_TENSORS = 1024
MAX_WEIGHT = torch.finfo(torch.float32).max  # of float64 weights, too: scores multiply four weights
MAX_NAME = 200  # characters in the name of a tensor
MAX_DIMENSIONS = 4


@dataclass(frozen=True)
class TrainingState:
    """What a trainer needs to resume bit for bit, without the weights.

    Attributes:
        arrays: by name, of the dtypes in `safetensors.DTYPES`.
        values: JSON-like.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contents:
    """Tensors and metadata of a container, not yet checked.

    Attributes:
        tensors: the weights by name.
        metadata: None if `save` did not write the file.
        training_state: None if the file cannot be resumed.
    """

    tensors: dict[str, Tensor]
    metadata: dict[str, Any] | None = None
    training_state: TrainingState | None = None


Natural = Annotated[int, Meta(ge=0, le=2**53)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Task(Struct):
    """The training task; `sampler` names the distribution of its sequences."""

    sampler: str = ""
    T: Natural = 0
    L: Natural = 0


class Accuracy(Struct):
    """The share of correct positions when the file was made. `best_accuracy` and `last_accuracy` have the epoch."""

    value: Share
    n_sequences: Natural = 0
    sampler: str = ""
    epoch: Natural = 0


class History(Struct):
    """Some epochs of the run; a loss is None if it was not finite."""

    epochs: list[Natural]
    losses: list[float | None]
    accuracies: list[Share]

    def __post_init__(self) -> None:
        if not len(self.epochs) == len(self.losses) == len(self.accuracies):
            raise ValueError("epochs, losses and accuracies are not equally many")


class Mechanism(Struct):
    """How the model counts (`RC`, `IC`, `mixed`), and how that is known (`constructed`, `certified`, `classified`)."""

    label: str = ""
    provenance: str = ""


class Selection(Struct):
    """The runs among which this one was the best."""

    best_of_seeds: list[Seed]
    accuracies: list[Share]


class Metadata(Struct):
    """Only `format_version` and `config` are required.

    Attributes:
        config: checked by `CountingConfig`.
        training: the recipe; checked by `Recipe` when a run is resumed.
        repair: how the model was changed until it was proved.
        assumed: sentences of the importer.
    """

    format_version: Natural
    config: dict[str, Any]
    versions: dict[str, str] = {}
    sha256: str = ""
    rest_sha256: str = ""
    task: Task = msgspec.field(default_factory=Task)
    training: dict[str, Any] = {}
    repair: dict[str, Any] = {}
    seed: Seed = 0
    step: Natural = 0
    accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    best_accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    last_accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    history: History | msgspec.UnsetType = msgspec.UNSET
    mechanism: Mechanism = msgspec.field(default_factory=Mechanism)
    selection: Selection | msgspec.UnsetType = msgspec.UNSET
    assumed: list[str] = []
    layout: str = ""


msgspec.json.Decoder(Metadata)  # prepares the schema: two threads that do so at the same time crash Python (0.22)


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata, with an accuracy that is a bare number as `{"value": ...}`.

    Raises:
        Refused: names the field that does not fit the schema.
    """
    metadata = dict(metadata)
    for name in ("accuracy", "best_accuracy", "last_accuracy"):
        if type(metadata.get(name)) in (int, float):
            metadata[name] = {"value": metadata[name]}
    try:
        msgspec.convert(metadata, Metadata)
        msgspec.convert(metadata.get("training", {}), Task)
        return metadata
    except msgspec.ValidationError as error:
        raise Refused(f"has metadata of the wrong kind ({printable(str(error), 120)}); write it again") from None


_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_numbers(weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not finite, not floating-point, of two dtypes, or beyond single precision."""
    for name, tensor in weights.items():
        if tensor.dtype not in _FLOATS:
            raise Refused(f"stores {quoted(name)} as {tensor.dtype}; weights are floating-point numbers")
        chunks = tensor.reshape(-1).split(2**20)
        if not all(bool(chunk.isfinite().all()) for chunk in chunks):
            raise Refused(f"has NaN or infinite numbers in {quoted(name)}; a run that diverged? load an earlier one")
        if any(bool((chunk.abs() > MAX_WEIGHT).any()) for chunk in chunks):
            raise Refused(f"has numbers beyond {MAX_WEIGHT:.1e} in {quoted(name)}, of which no product is finite")
    dtypes = {str(tensor.dtype) for tensor in weights.values()}
    if len(dtypes) > 1:
        raise Refused(f"mixes {' and '.join(sorted(dtypes))} weights; convert them to one")


def check_shapes(weights: Mapping[str, Tensor], config: CountingConfig) -> None:
    """Refuse weights that are not exactly the tensors of `config`, in its shapes."""
    expected = {parameter.name: parameter.shape for parameter in config.parameters}
    missing, unknown = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
    if missing:
        raise Refused(f"lacks {missing[0]!r}, which a {config.name} model has; is its configuration right?")
    if unknown:
        raise Refused(f"has {quoted(unknown[0])}, which a {config.name} model of {config.n_layers} layers does not")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            sizes = f"T={config.T}, L={config.L}, d={config.d}, p={config.p}"
            raise Refused(f"has {name} of shape {list(weights[name].shape)}; {sizes} asks for {list(shape)}")
