"""The schema of the metadata: what the fields that the toolkit reads must look like, checked once, at the door.

A file whose hash holds can still say `assumed: 5`. Whoever reads a field of `model.metadata` declares it here, and may
then rely on its type where it is there at all. Fields of other names may hold anything JSON-like.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from counting_interp.models.checkpoint.contents import Refused
from counting_interp.util.errors import printable

Natural = Annotated[int, Meta(ge=0)]
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


class Mechanism(Struct):
    """How the model counts: `RC`, `IC` or `mixed`; and who says so: `constructed`, `certified` or `classified`."""

    label: str = ""
    provenance: str = ""


class Selection(Struct):
    """The runs that this one was the best of."""

    best_of_seeds: list[Natural]
    accuracies: list[Share]


class Metadata(Struct):
    """All fields have defaults: a file need not have any but `format_version` and `config`.

    Attributes:
        config: checked by `CountingConfig`.
        training: the recipe; checked by `Recipe` where a run is resumed.
        assumed: sentences, by the importer.
    """

    format_version: Natural
    config: dict[str, Any]
    versions: dict[str, str] = {}
    sha256: str = ""
    rest_sha256: str = ""
    task: Task = msgspec.field(default_factory=Task)
    training: dict[str, Any] = {}
    seed: Natural = 0
    step: Natural = 0
    accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    best_accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    last_accuracy: Accuracy | msgspec.UnsetType = msgspec.UNSET
    history: History | msgspec.UnsetType = msgspec.UNSET
    mechanism: Mechanism = msgspec.field(default_factory=Mechanism)
    selection: Selection | msgspec.UnsetType = msgspec.UNSET
    assumed: list[str] = []
    layout: str = ""


def checked(metadata: dict[str, Any]) -> dict[str, Any]:
    """The same metadata; those that do not fit the schema are refused, naming the field.

    An accuracy that is a bare number, as people write it into their own files, stands for one without sample size."""
    bare = {name: metadata.get(name) for name in ("accuracy", "best_accuracy", "last_accuracy")}
    numbers = {name: {"value": value} for name, value in bare.items() if type(value) in (int, float)}
    metadata = {**metadata, **numbers}
    try:
        msgspec.convert(metadata, Metadata)
        return metadata
    except msgspec.ValidationError as error:
        raise Refused(f"has metadata of the wrong kind ({printable(str(error), 120)}); write it again") from None
