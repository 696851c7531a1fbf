"""Verdicts on checkpoints, and on the snapshots of a run: when does the mechanism form, and from which other?"""

from __future__ import annotations

import json
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
    """A checkpoint and its verdict; `step` and `seed` are those of its metadata."""

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
    """Load and classify a checkpoint.

    Raises:
        CheckpointError: if the file cannot be loaded, or its model cannot be classified.
    """
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


@dataclass(frozen=True)
class Formation:
    """The verdicts along one training run.

    Attributes:
        folder: where its snapshots are.
        snapshots: in order of steps.
        forms_at: the first step from which on the label is the final one; None for a run that ends unsolved.
        passes_through: other mechanisms before the final one.
        leans: the label of each snapshot; while it is unsolved, what it leans to, or `-`.
    """

    folder: Path
    snapshots: tuple[Classified, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(snapshot.verdict.mechanism.value for snapshot in self.snapshots)

    @property
    def forms_at(self) -> int | None:
        final = self.labels[-1]
        if final == "unsolved":
            return None
        first = len(self.labels)
        while first > 0 and self.labels[first - 1] == final:
            first -= 1
        return self.snapshots[first].step

    @property
    def passes_through(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label for label in self.labels if label not in ("unsolved", self.labels[-1])))

    @property
    def leans(self) -> tuple[str, ...]:
        verdicts = [snapshot.verdict for snapshot in self.snapshots]
        return tuple(
            str(verdict.leans or "-") if verdict.mechanism == "unsolved" else verdict.mechanism.value
            for verdict in verdicts
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "model": self.snapshots[0].name,
            "paths": [str(snapshot.path) for snapshot in self.snapshots],
            "steps": [snapshot.step for snapshot in self.snapshots],
            "labels": list(self.labels),
            "leans": list(self.leans),
            "forms_at": self.forms_at,
            "passes_through": list(self.passes_through),
        }

    def __str__(self) -> str:
        if self.forms_at is None:
            return f"The run ends unsolved at step {self.snapshots[-1].step:,}."
        through = f" after passing through {' and '.join(self.passes_through)}" if self.passes_through else ""
        early = [
            lean
            for lean, label in zip(self.leans, self.labels, strict=True)
            if label == "unsolved" and lean not in ("-", self.labels[-1])
        ]
        hint = f" While still unsolved, it leaned towards {early[0]}." if early else ""
        return f"{self.labels[-1]} forms by step {self.forms_at:,}{through}.{hint}"


def runs(rows: list[Classified]) -> list[Formation]:
    """Group checkpoints into runs: same folder, configuration and seed, and at least two different steps."""
    groups: dict[tuple[Path, str, int | None], list[Classified]] = {}
    for row in rows:
        if row.step is not None:
            key = (row.path.parent, json.dumps(row.config, sort_keys=True), row.seed)
            groups.setdefault(key, []).append(row)
    return [
        Formation(folder, tuple(sorted(group, key=lambda row: (row.step or 0, str(row.path)))))
        for (folder, _, _), group in groups.items()
        if len({row.step for row in group}) > 1
    ]
