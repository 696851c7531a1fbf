"""Verdicts on files, and the JSON of `interp classify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.verdict.rule import classify
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.models import CountingTransformer
from counting_interp.models.protocol import CountingModel
from counting_interp.util.errors import CheckpointError, InterpError


@dataclass(frozen=True)
class Classified:
    """A checkpoint and its verdict; `step` and `seed` as its metadata have them."""

    path: Path
    verdict: Verdict
    config: dict[str, Any]
    name: str
    step: int | None
    seed: int | None
    assumed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        sizes = {name: self.config[name] for name in ("T", "L", "d", "p", "n_layers")}
        return {
            "path": str(self.path),
            "model": self.name,
            **sizes,
            **self.verdict.to_dict(),
            "step": self.step,
            "assumed": list(self.assumed),
        }


def classify_file(
    path: Path,
    *,
    load: Callable[[Path], CountingModel] = CountingTransformer.load,
    quick: bool = False,
    prove: bool = False,
    seed: int = 0,
) -> Classified:
    """Load and classify; whatever is wrong with the file becomes a CheckpointError."""
    model = load(path)
    try:
        verdict = classify(model, quick=quick, prove=prove, seed=seed)
    except CheckpointError:
        raise
    except InterpError as error:
        raise CheckpointError(path, str(error)) from error
    metadata = model.metadata
    return Classified(
        path=path,
        verdict=verdict,
        config=model.config.to_dict(),
        name=model.config.name,
        step=metadata.get("step"),
        seed=metadata.get("seed"),
        assumed=tuple(metadata.get("assumed", ())),
    )
