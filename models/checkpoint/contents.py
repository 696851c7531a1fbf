"""What a checkpoint holds, whichever container it came in, and what is checked of it.

Limits on what is read at all come first. Then the schema of the metadata: whoever reads a field of `model.metadata`
declares it here, and may rely on its type where it is there at all. Fields of other names may hold anything JSON-like.
Then the weights: finite numbers, in exactly the shapes that the configuration asks for.
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
    """What a trainer needs beside the weights to resume as if it had never stopped.

    Attributes:
        arrays: by name; any of the dtypes in `safetensors.DTYPES`, kept bit for bit.
        values: JSON-like.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Contents:
    """Tensors and facts, nothing checked beyond their container.

    Attributes:
        tensors: the weights by name.
        metadata: what `save` wrote, or None where the file is not of our making.
        training_state: where the file can be resumed.
    """

    tensors: dict[str, Tensor]
    metadata: dict[str, Any] | None = None
    training_state: TrainingState | None = None


Natural = Annotated[int, Meta(ge=0, le=2**53)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Task(Struct):
    """What the model was trained to do; `sampler` names the distribution of its sequences."""

    sampler: str = ""
    T: Natural = 0
    L: Natural = 0


class Accuracy(Struct):
    """Of positions, as measured when the file was made; `best_accuracy`, and `last_accuracy` where the best was kept,
    say after which epoch."""

    value: Share
    n_sequences: Natural = 0
    sampler: str = ""
    epoch: Natural = 0


class History(Struct):
    """Some epochs of the run; a loss that was not finite is null."""

    epochs: list[Natural]
    losses: list[float | None]
    accuracies: list[Share]

    def __post_init__(self) -> None:
        if not len(self.epochs) == len(self.losses) == len(self.accuracies):
            raise ValueError("epochs, losses and accuracies are not equally many")


class Mechanism(Struct):
    """How the model counts: `RC`, `IC` or `mixed`; and who says so: `constructed`, `certified` or `classified`."""

    label: str = ""
    provenance: str = ""


class Selection(Struct):
    """The runs that this one was the best of."""

    best_of_seeds: list[Seed]
    accuracies: list[Share]


class Metadata(Struct):
    """All fields have defaults: a file need not have any but `format_version` and `config`.

    Attributes:
        config: checked by `CountingConfig`.
        training: the recipe; checked by `Recipe` where a run is resumed. Its `sampler` is a text, too.
        repair: how the model was changed until it was proved.
        assumed: sentences, by the importer.
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
    """The same metadata; those that do not fit the schema are refused, naming the field.

    An accuracy that is a bare number, as people write it into their files, stands for one without sample size.
    """
    bare = {name: metadata.get(name) for name in ("accuracy", "best_accuracy", "last_accuracy")}
    numbers = {name: {"value": value} for name, value in bare.items() if type(value) in (int, float)}
    metadata = {**metadata, **numbers}
    try:
        msgspec.convert(metadata, Metadata)
        msgspec.convert(metadata.get("training", {}), Task)
        return metadata
    except msgspec.ValidationError as error:
        raise Refused(f"has metadata of the wrong kind ({printable(str(error), 120)}); write it again") from None


_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_numbers(weights: Mapping[str, Tensor]) -> None:
    """Real floating-point numbers, all of one kind, within the range of single precision."""
    for name, tensor in weights.items():
        if tensor.dtype not in _FLOATS:
            raise Refused(f"stores {quoted(name)} as {tensor.dtype}; weights are floating-point numbers")
        chunks = tensor.reshape(-1).split(2**20)
        if not all(bool(chunk.isfinite().all()) for chunk in chunks):
            raise Refused(f"has NaN or infinite numbers in {quoted(name)}; a run that diverged? load an earlier one")
        if any(bool((chunk.abs() > MAX_WEIGHT).any()) for chunk in chunks):
            raise Refused(f"has numbers beyond {MAX_WEIGHT:.1e} in {quoted(name)}, of which no product is finite")
    kinds = {str(tensor.dtype) for tensor in weights.values()}
    if len(kinds) > 1:
        raise Refused(f"mixes {' and '.join(sorted(kinds))} weights; convert them to one")


def check_shapes(weights: Mapping[str, Tensor], config: CountingConfig) -> None:
    """Exactly the tensors that `config` asks for, in exactly its shapes."""
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
