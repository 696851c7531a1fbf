"""Verdicts on files, as rows a person understands at a glance and as the JSON of `interp classify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.checkpoints import shown
from counting_interp.interp.classify.judge import classify
from counting_interp.interp.classify.verdict import Verdict
from counting_interp.interp.console import columns, two_places
from counting_interp.models import CountingTransformer
from counting_interp.models.counter import Counter
from counting_interp.models.errors import CheckpointError, InterpError, printable
from counting_interp.probes.applicability import NotApplicable
from counting_interp.probes.certify.interventions import ProvedInterventions, prove_interventions


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
    load: Callable[[Path], Counter] = CountingTransformer.load,
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


def _proved(model: Counter, seed: int) -> tuple[ProvedInterventions | None, str | None]:
    """What is proved, or why that cannot be tried."""
    assert isinstance(model, CountingTransformer), "the command line has refused others"
    try:
        return prove_interventions(model, seed=seed), None
    except NotApplicable as reason:
        return None, str(reason)


def as_text(path: Path, found: Classified) -> str:
    """One verdict with its evidence, and what had to be assumed of the file."""
    assumed = [f"  assumed     {printable(line, 400)}" for line in found.assumed]
    proved = [] if found.proved is None else [f"  proved      {found.proved}"]
    proved += [] if found.unproved is None else [f"  proved      nothing: {found.unproved}"]
    return "\n".join([shown(path), str(found.verdict), *proved, *assumed])


def as_table(rows: list[Classified], *, steps: bool = False) -> str:
    """One row per checkpoint; with `steps`, the snapshots of one run by their steps instead of their names."""
    head = ("step" if steps else "file", "model", "T", "L", "d", "p", "verdict", "case", "accuracy", "sampler")
    table: list[tuple[str, ...]] = [(*head, "kept", "with t", "with s", "transfer", "sure")]
    for row in rows:
        verdict = row.verdict
        table.append(
            (
                f"{row.step:,}" if steps and row.step is not None else shown(row.path, 60),
                row.name + ("" if row.config["n_layers"] == 1 else f" x{row.config['n_layers']}"),
                *(str(row.config[name]) for name in ("T", "L", "d", "p")),
                verdict.title,
                verdict.case or "-",
                f"{verdict.accuracy:.1%}",
                verdict.sampler,
                *(two_places(number) for number in verdict.numbers.values()),
                "-" if verdict.confidence is None else f"{verdict.confidence:.0%}",
            )
        )
    return columns(table)
