"""From a file to what a report says about it: the model, its verdict, what could be proved, its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from counting_interp.data import ZOO
from counting_interp.models import CountingTransformer
from counting_interp.models.counter import Counter
from counting_interp.util.text import installed_versions

if TYPE_CHECKING:
    from counting_interp.interp.figures.drawing import Drawing
    from counting_interp.interp.verdict import Verdict

VERIFY_SECONDS = 5.0


@dataclass(frozen=True)
class Subject:
    """A checkpoint and what was found about it.

    Attributes:
        title: short; unique on its page.
        path: where the file is, as it was given.
        verification: what `interp verify` says of it, in one line.
        drawings: empty for a checkpoint that only stands in the table.
        date, versions: when and by what the report was made.
    """

    title: str
    path: str
    model: Counter
    verdict: Verdict
    verification: str
    drawings: Sequence[Drawing]
    date: str
    versions: str


def subject_of(
    path: Path,
    *,
    title: str,
    seed: int = 0,
    full: bool = True,
    load: Callable[[Path], Counter] = CountingTransformer.load,
) -> Subject:
    """Load and classify one checkpoint; if `full`, also verify and draw it, from what was measured for the verdict.

    A file that cannot be read raises CheckpointError."""
    from counting_interp.interp.figures.introspection import SHEETS, Settings, draw_all
    from counting_interp.interp.proof import Certificate, certify
    from counting_interp.interp.verdict import classify
    from counting_interp.probes.applicability import needs_paper_block

    model = load(path)
    verdict = classify(model, seed=seed)
    drawings: list[Drawing] = []
    verification = ""
    if full:
        figures = draw_all(model, settings=Settings(seed=seed), measured=verdict.results)
        drawings += [drawing for drawing in figures if drawing.name not in SHEETS]  # large, and say little more
        unasked = needs_paper_block(model.config)
        proved = None if unasked or not isinstance(model, CountingTransformer) else certify(model, VERIFY_SECONDS)
        verification = f"not possible: {unasked}" if proved is None else str(proved)
        verification += f". {proved.claim}" if isinstance(proved, Certificate) else ""
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    return Subject(title, str(path), model, verdict, verification, drawings, date, versions)


def titles(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart: base names, or as many folders as it takes. Bundled models
    have names without an ending."""
    paths = [path.with_suffix("") if path.parent == ZOO else path for path in paths]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]  # the same file twice
