"""The bundled checkpoints: trained models at full budget, small enough to travel with the package.

    from counting_interp.models import zoo
    model = zoo.load("bos+sftm-d45-p2")

Each file's metadata says how it was made and why it is here; `models/zoo/build.py` makes them all.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counting_interp.models.transformer import CountingTransformer

FOLDER = Path(str(files("counting_interp.models.zoo") / "checkpoints"))


def names() -> list[str]:
    """All bundled checkpoints, in alphabetical order."""
    return sorted(file.stem for file in FOLDER.glob("*.safetensors"))


def path(name: str) -> Path:
    """The file of a bundled checkpoint."""
    if name not in names():
        raise ValueError(f"the zoo has no {name!r}; it has {', '.join(names())}")
    return FOLDER / f"{name}.safetensors"


def load(name: str) -> CountingTransformer:
    from counting_interp.models.transformer import CountingTransformer

    return CountingTransformer.load(path(name))
