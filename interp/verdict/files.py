"""Verdicts on files, and the JSON of `interp classify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.proof.interventions import ProvedInterventions, prove_interventions
from counting_interp.interp.verdict.rule import classify
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.models import CountingTransformer
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import NotApplicable
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
    proved: ProvedInterventions | None = None
    unproved: str | None = None  # why no proof was tried

    def to_dict(self) -> dict[str, Any]:
        sizes = {name: self.config[name] for name in ("T", "L", "d", "p", "n_layers")}
        return {
            "path": str(self.path),
            "model": self.name,
            **sizes,
            **self.verdict.to_dict(),
            "step": self.step,
            "assumed": list(self.assumed),
            "proved": None if self.proved is None else self.proved.to_dict(),
            "unproved": self.unproved,
        }


def classify_file(
    path: Path,
    *,
    load: Callable[[Path], CountingModel] = CountingTransformer.load,
    quick: bool = False,
    prove: bool = False,
    seed: int = 0,
) -> Classified:
    """Load and classify; whatever is wrong with the file becomes a CheckpointError. With `prove`, also say for which
    pairs of tokens the interventions are proved (counting transformers of one layer only)."""
    model = load(path)
    try:
        verdict = classify(model, quick=quick, seed=seed)
    except CheckpointError:
        raise
    except InterpError as error:
        raise CheckpointError(path, str(error)) from error
    metadata = model.metadata
    proved, unproved = _proved(model, seed) if prove else (None, None)
    return Classified(
        path=path,
        verdict=verdict,
        config=model.config.to_dict(),
        name=model.config.name,
        step=metadata.get("step"),
        seed=metadata.get("seed"),
        assumed=tuple(metadata.get("assumed", ())),
        proved=proved,
        unproved=unproved,
    )


def _proved(model: CountingModel, seed: int) -> tuple[ProvedInterventions | None, str | None]:
    """What is proved, or why that cannot be tried."""
    assert isinstance(model, CountingTransformer), "the command line has refused others"
    try:
        return prove_interventions(model, seed=seed), None
    except NotApplicable as reason:
        return None, str(reason)
