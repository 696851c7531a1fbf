"""What a checkpoint holds, whichever container it came in, and the limits on what is read at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

FORMAT = "counting-interp"
FORMAT_VERSION = 1

MAX_FILE_BYTES = 64 * 2**20  # the largest model of the paper takes 0.7 MB, Adam's moments included
MAX_HEADER_BYTES = 2**20  # of a pickle or a JSON header: everything but the tensors
MAX_ITEMS = 20_000  # values in the metadata, containers included
MAX_DEPTH = 32
MAX_TENSORS = 1024
MAX_NAME = 200  # characters in the name of a tensor
MAX_DIMENSIONS = 4


class Refused(Exception):  # noqa: N818 (a reason, not an error that a caller meets)
    """Why some bytes are not a checkpoint. `load` puts the file's name in front: CheckpointError."""


@dataclass(frozen=True)
class TrainingState:
    """What a trainer needs beside the weights to go on as if it had never stopped.

    Attributes:
        arrays: by name; any of the dtypes in `tensors.DTYPES`, kept bit for bit.
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
