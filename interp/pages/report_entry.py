"""From a file to what a report says of it: model, verdict, proof, figures, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counting_interp.data import ZOO
from counting_interp.models import CountingTransformer
from counting_interp.models.config import CountingConfig
from counting_interp.models.protocol import CountingModel
from counting_interp.util.errors import printable
from counting_interp.util.text import installed_versions, sampled

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.proof.outcome import ProofOutcome
    from counting_interp.interp.verdict import Verdict

PROOF_SECONDS = 5.0


@dataclass(frozen=True)
class ReportEntry:
    """A checkpoint and what was found about it.

    Attributes:
        title: short; unique on its page.
        path: where the file is, as it was given.
        verification: what `interp prove` says of it, in one line.
        drawings: empty for a checkpoint that only stands in the table.
        date, versions: when and by what the report was made.
        proof: what was proved, or a sequence that it counts wrong; None where nothing was asked.
    """

    title: str
    path: str
    model: CountingModel
    verdict: Verdict
    verification: str
    drawings: Sequence[Figure]
    date: str
    versions: str
    proof: ProofOutcome | None = None


def report_entry_of(
    path: Path,
    *,
    title: str,
    seed: int = 0,
    full: bool = True,
    load: Callable[[Path], CountingModel] = CountingTransformer.load,
) -> ReportEntry:
    """Load and classify one checkpoint; if `full`, also prove and draw it, from what was measured for the verdict.

    A file that cannot be read raises CheckpointError."""
    from counting_interp.interp.figures import SHEETS, Settings, figures_of
    from counting_interp.interp.proof import Certificate, prove
    from counting_interp.interp.verdict import classify
    from counting_interp.probes.applicability import needs_paper_block

    model = load(path)
    verdict = classify(model, seed=seed)
    drawings: list[Figure] = []
    verification, proved = "", None
    if full:
        figures = figures_of(model, settings=Settings(seed=seed), measured=verdict.results)
        drawings += [drawing for drawing in figures if drawing.name not in SHEETS]  # large, and say little more
        unasked = needs_paper_block(model.config)
        proved = None if unasked or not isinstance(model, CountingTransformer) else prove(model, PROOF_SECONDS)
        verification = f"not possible: {unasked}" if proved is None else str(proved)
        verification += f". {proved.claim}" if isinstance(proved, Certificate) else ""
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    return ReportEntry(title, str(path), model, verdict, verification, drawings, date, versions, proved)


def titles(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart: base names, or as many folders as it takes. Bundled models
    have names without an ending."""
    paths = [path.with_suffix("") if path.parent == ZOO else path for path in paths]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]  # the same file twice


CITATION = (
    '<h3>How to cite</h3><p class="cite">Freya Behrens, Luca Biggio, Lenka Zdeborová: <i>Counting in Small '
    "Transformers: The Delicate Interplay between Attention and Feed-Forward Layers</i>, ICML 2025; and this toolkit, "
    "<i>counting-interp</i>, with the version above.</p>"
)

DRAWN = {
    "paper": "drawn as the paper says",
    "published": "drawn as in the authors' code",
    "uniform": "in which every token is drawn by itself",
}


def provenance(subject: ReportEntry) -> str:
    """A table of facts, names on the left."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(printable(text, 400))}</td></tr>" for name, text in facts(subject)
    )
    return f'<table class="facts">{rows}</table>'


def facts(subject: ReportEntry) -> list[tuple[str, str]]:
    """Everything that is known; what a file does not say is left out."""
    config, metadata = subject.model.config, subject.model.metadata
    task, training = _table(metadata.get("task")), _table(metadata.get("training"))
    versions = _table(metadata.get("versions"))
    found: list[tuple[str, Any]] = [
        ("file", _file(Path(subject.path))),
        ("model", f"{config.name}, {config.n_layers} layer{'s' if config.n_layers > 1 else ''}"),
        ("sizes", f"T = {config.T}, L = {config.L}, d = {config.d}, p = {config.p}"),
        ("trained weights", f"{config.num_parameters:,}" if isinstance(config, CountingConfig) else None),
        ("sha256 of the weights", metadata.get("sha256")),
        ("seed", metadata.get("seed")),
        ("steps", metadata.get("step")),
        ("trained on", task.get("sampler") and f"sequences {DRAWN.get(task['sampler'], 'of a sampler of its own')}"),
        ("recipe", ", ".join(f"{name} {value}" for name, value in training.items())),
        ("trained with", ", ".join(f"{name} {value}" for name, value in versions.items())),
        ("prove", subject.verification),
        ("report made", f"{subject.date}, by {subject.versions}"),
    ]
    mechanism = _table(metadata.get("mechanism"))
    if mechanism:
        found.append(("label in the file", f"{mechanism.get('label')} ({mechanism.get('provenance')})"))
    assumed = metadata.get("assumed")
    found += [("assumed", line) for line in assumed] if isinstance(assumed, list) else []
    return [(name, str(value)) for name, value in found if value not in (None, "")]


def accuracy_words(subject: ReportEntry) -> str:
    """How well it counts, and what it cannot know: `It is right at 88.6 % of sampled positions, ...`"""
    from counting_interp.interp.proof.outcome import saw_every_count

    config, verdict = subject.model.config, subject.verdict
    shown = not isinstance(subject.model, CountingTransformer) or saw_every_count(subject.model)
    unseen = "" if shown else f" In training it never saw count {config.L}."
    share = sampled(verdict.accuracy)
    return f"It is right at {share} of sampled positions, on sequences {DRAWN.get(verdict.sampler, '')}.{unseen}"


def _file(path: Path) -> str:
    """As it was given; a bundled one by its name, not by where it is installed."""
    return f"bundled checkpoint {path.stem}" if path.parent == ZOO else str(path)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
