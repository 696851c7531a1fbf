"""The report: one self-contained page about one checkpoint, or about several side by side.

An entry holds what is known of a checkpoint: model, verdict, proof, figures. The sections of the page are the verdict,
the contents, the live model, the evidence, the figures and the provenance, in this order. plotly.js is inlined once.
Names that a user typed are escaped, or carried as JSON without a `<`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counting_interp.data import ZOO
from counting_interp.interp.pages import asset, made_by, page
from counting_interp.interp.pages.live import live_script, model_payload, why_not_live
from counting_interp.interp.verdict.verdict import NAMES, SHARES
from counting_interp.models import CountingTransformer
from counting_interp.models.config import CountingConfig
from counting_interp.models.protocol import CountingModel
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import check_output, write_atomically
from counting_interp.util.text import describe, installed_versions, sampled, two_places

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.proof.outcome import ProofOutcome
    from counting_interp.interp.verdict import Verdict

GENERATOR = "interp report"
LEADING = "transplants"  # the figure beside the verdict
SECOND = "cue-conflict"  # the open figure below; the others are folded
BADGES = {"certified": "proved", "refuted": "a wrong sequence is known", "undecided": "not proved"}
MEASURED = '<details><summary>How the shares are measured</summary><div class="scroll wide-drawing">{}</div></details>'
CONTENTS = (
    ("verdict", "Verdict"),
    ("live", "The model itself"),
    ("evidence", "Evidence"),
    ("figures", "Figures"),
    ("provenance", "Provenance"),
)
PROOF_SECONDS = 5.0
CITATION = (
    '<h3>How to cite</h3><p class="cite">Freya Behrens, Luca Biggio, Lenka Zdeborová: <i>Counting in Small '
    "Transformers: The Delicate Interplay between Attention and Feed-Forward Layers</i>, ICML 2025; and this toolkit, "
    "<i>counting-interp</i>, with the version above.</p>"
)

DRAWN = {
    "paper": "drawn as the paper says",
    "published": "drawn as in the authors' code",
    "uniform": "in which tokens are drawn independently",
}


@dataclass(frozen=True)
class ReportEntry:
    """A checkpoint and what was found about it.

    Attributes:
        title: short; unique on its page.
        path: the file, as it was given.
        verification: the result of `interp prove`, in one line.
        drawings: empty for a checkpoint that is only in the table.
        date, versions: of the report.
        proof: a certificate, a counterexample or neither; None if no proof was attempted.
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
    """Loads and classifies one checkpoint; if `full`, also proves and draws it. Figures reuse the verdict's results.

    Raises:
        CheckpointError: the file cannot be read.
    """
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
        drawings += [drawing for drawing in figures if drawing.name not in SHEETS]  # large, with little more to see
        impossible = needs_paper_block(model.config)
        proved = None if impossible or not isinstance(model, CountingTransformer) else prove(model, PROOF_SECONDS)
        verification = f"not possible: {impossible}" if proved is None else str(proved)
        verification += f". {proved.claim}" if isinstance(proved, Certificate) else ""
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    return ReportEntry(title, str(path), model, verdict, verification, drawings, date, versions, proved)


def report_on(models: Sequence[tuple[Path | None, CountingModel]], output: Path, seed: int, overwrite: bool) -> None:
    """Writes the report on loaded models, each with the path of its file if it has one.

    Raises:
        OutputError: `output` exists and is not a report, and `overwrite` is false.
    """
    check_output(output, [path for path, _ in models if path], overwrite, made_by(GENERATOR))
    paths = [path or Path(f"{model.config.name}, not saved") for path, model in models]
    names = [f"{name} ({i})" if paths.count(paths[i - 1]) > 1 else name for i, name in enumerate(titles(paths), 1)]
    entries = [
        report_entry_of(path, title=name, seed=seed, load=lambda _, model=model: model)  # type: ignore[misc]
        for path, name, (_, model) in zip(paths, names, models, strict=True)
    ]
    write_report(entries, output)


def titles(paths: Sequence[Path]) -> list[str]:
    """The shortest endings of the paths that tell them apart: base names, or with as many folders as needed. Bundled
    models are shown without file extension."""
    paths = [path.with_suffix("") if path.parent == ZOO else path for path in paths]
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]  # the same file twice


def report_html(entries: Sequence[ReportEntry], others: Sequence[ReportEntry] = ()) -> str:
    """The whole page.

    Args:
        entries: shown in full, side by side.
        others: shown only in the table at the top.
    """
    from plotly.offline import get_plotlyjs

    data, leading, figures = _figures(entries)
    for i, entry in enumerate(entries):
        if isinstance(entry.model, CountingTransformer) and why_not_live(entry.model) is None:
            wrong = getattr(entry.proof, "sequence", None)  # of a counterexample
            data[f"model-{i}"] = {**model_payload(entry.model), "wrong": None if wrong is None else list(wrong)}
    sections = {
        "verdict": f'<div class="{"lead" if len(entries) == 1 else ""}">{_verdicts(entries, others)}{leading}</div>',
        "live": _live(entries),
        "evidence": MEASURED.format(asset("transplants.svg"))
        + _columns([_titled(entry, entries, entry.verdict._repr_html_()) for entry in entries]),
        "figures": "".join(figures),
        "provenance": _columns([_titled(entry, entries, provenance(entry)) for entry in entries]) + CITATION,
    }
    title = _title(entries, others)
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name in CONTENTS)
    body = [f"<header><h1>{escape(title)}</h1></header>"]
    for anchor, name in CONTENTS:
        heading = "" if anchor == "verdict" else f"<h2>{name}</h2>"
        body.append(f'<section id="{anchor}">{heading}{sections[anchor]}</section>')
        if anchor == "verdict":
            body.append(f'<nav aria-label="Contents">{links}</nav>')
    scripts = [get_plotlyjs(), asset("theme.js"), live_script(), asset("report.js")]
    return page(title, GENERATOR, body, data, scripts)


def _title(entries: Sequence[ReportEntry], others: Sequence[ReportEntry]) -> str:
    n = len(entries) + len(others)
    return f"How does {printable(entries[0].title, 80)} count?" if n == 1 else f"How {n} checkpoints count"


def _verdicts(entries: Sequence[ReportEntry], others: Sequence[ReportEntry]) -> str:
    """A card for each checkpoint that is shown in full; if there are several checkpoints, a table before."""
    everyone = [*entries, *others]
    table = summary_table(everyone) if len(everyone) > 1 else ""
    rest = ""
    if others:
        names = " and ".join(escape(printable(entry.title, 80)) for entry in entries)
        rest = f'<p class="note">Shown in full below: {names}. Name others with --show.</p>'
    return table + rest + _columns([verdict_card(entry) for entry in entries])


def _titled(entry: ReportEntry, entries: Sequence[ReportEntry], content: str) -> str:
    title = f"<h3>{escape(printable(entry.title))}</h3>" if len(entries) > 1 else ""
    return f'<div class="part">{title}{content}</div>'


def _live(entries: Sequence[ReportEntry]) -> str:
    """The live models. If there are several, one field sets the sequence of all that have the same T and L."""
    note = (
        '<p class="note">This page carries the weights and runs them. Type a sequence, or click a token and use the '
        "arrow keys: left and right move, up and down change the token.</p>"
    )
    shared = '<div class="card" data-shared></div>' if len(entries) > 1 else ""
    reasons = [why_not_live(entry.model) for entry in entries]
    live = [
        f'<div data-live="model-{i}"></div>' if reason is None else f'<p class="note">Not live: {escape(reason)}.</p>'
        for i, reason in enumerate(reasons)
    ]
    panels = [_titled(entry, entries, panel) for entry, panel in zip(entries, live, strict=True)]
    return (note + shared if None in reasons else "") + _columns(panels)


def _columns(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f'<div class="side-by-side">{"".join(parts)}</div>'


def _figures(entries: Sequence[ReportEntry]) -> tuple[dict[str, Any], str, list[str]]:
    """Figures of the same name are side by side, in the order in which they first appear.

    Returns:
        The data of all figures by element id, the markup of the verdict's figure, and that of the others. Of those the
        first is open and the rest are folded.
    """
    names = list(dict.fromkeys(drawing.name for entry in entries for drawing in entry.drawings))
    data: dict[str, Any] = {}
    shown: dict[str, str] = {}
    heads = {drawing.name: drawing.title for entry in entries for drawing in entry.drawings}
    for name in names:
        row = []
        for i, entry in enumerate(entries):
            for drawing in entry.drawings:
                if drawing.name == name:
                    whose = f" ({printable(entry.title, 60)})" if len(entries) > 1 else ""
                    row.append(_figure(f"figure-{i}-{name}", f"{drawing.title}{whose}", drawing, data))
        shown[name] = _columns(row)
    leading = shown.pop(LEADING, "")
    second = shown.pop(min(shown, key=lambda name: not name.startswith(SECOND), default=""), "")
    folded = [
        f"<details><summary>{escape(heads[name])}</summary>{figures}</details>" for name, figures in shown.items()
    ]
    return data, leading, [second, *folded]


def _figure(identifier: str, heading: str, drawing: Figure, data: dict[str, Any]) -> str:
    data[f"{identifier}-data"] = drawing.to_json()
    return (
        f'<figure id="{identifier}"><h3>{escape(heading)}</h3><div class="plot" data-plot="{identifier}-data"></div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>"
    )


def verdict_card(entry: ReportEntry) -> str:
    """Label, meaning, and a bar for each share."""
    verdict = entry.verdict
    bars = "".join(_bar(NAMES[share.name], share.value, share.name) for share in verdict.shares)
    meaning = verdict.mechanism.words[0].upper() + verdict.mechanism.words[1:]
    return (
        f'<div class="card verdict label-{verdict.mechanism.group}"><p class="head">'
        f'<span class="chip">{escape(verdict.mechanism.value)}</span>'
        f'<span class="name">{escape(printable(entry.title))}</span>{_badge(entry)}</p>'
        f'<p class="says">{escape(meaning)} {escape(accuracy_words(entry))}</p>'
        f'<div class="answers">{bars}</div></div>'
    )


def _badge(entry: ReportEntry) -> str:
    """The result of the proof; empty if none was attempted."""
    if entry.proof is None:
        return ""
    kind = {"certified": "", "refuted": " refuted"}.get(entry.proof.verdict, " open")
    words = BADGES.get(entry.proof.verdict, entry.proof.verdict)
    said = escape(printable(str(entry.proof), 300))
    return f'<span class="proof{kind}" title="{said}">{escape(words)}</span><span class="note">{said}</span>'


def _bar(words: str, number: float, kind: str) -> str:
    width = 100 * min(max(0.0, number), 1)  # 0 for NaN
    bar = f'<span class="bar"><i class="share-{kind}" style="width:{width:.0f}%"></i></span>'
    return f'<span>{escape(words)}</span>{bar}<span class="number">{two_places(number)}</span>'


def summary_table(entries: Sequence[ReportEntry]) -> str:
    """A table with a row for each checkpoint."""
    heads = ["checkpoint", "verdict", "model", "accuracy", *(f"share of {name}" for name in SHARES)]
    lines = []
    for entry in entries:
        verdict = entry.verdict
        chip = f'<span class="chip label-{verdict.mechanism.group}">{escape(verdict.mechanism.value)}</span>'
        numbers = (sampled(verdict.accuracy), *(two_places(share.value) for share in verdict.shares))
        cells = [
            f"<td>{escape(printable(entry.title, 80))}</td>",
            f"<td>{chip}</td>",
            f"<td>{escape(describe(entry.model.config))}</td>",
        ]
        cells += [f'<td class="number">{escape(number)}</td>' for number in numbers]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f'<div class="scroll"><table class="summary"><tr>{head}</tr>{"".join(lines)}</table></div>'


def provenance(entry: ReportEntry) -> str:
    """The facts of `facts` as a table."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(printable(text, 800))}</td></tr>" for name, text in facts(entry)
    )
    return f'<table class="facts">{rows}</table>'


def facts(entry: ReportEntry) -> list[tuple[str, str]]:
    """Names and values of all known facts; what a file does not record is left out."""
    config, metadata = entry.model.config, entry.model.metadata
    task, training = _table(metadata.get("task")), _table(metadata.get("training"))
    versions = _table(metadata.get("versions"))
    known: list[tuple[str, Any]] = [
        ("file", _file(Path(entry.path))),
        ("model", f"{config.name}, {config.n_layers} layer{'s' if config.n_layers > 1 else ''}"),
        ("sizes", f"T = {config.T}, L = {config.L}, d = {config.d}, p = {config.p}"),
        ("trained weights", f"{config.num_parameters:,}" if isinstance(config, CountingConfig) else None),
        ("sha256 of the weights", metadata.get("sha256")),
        ("seed", metadata.get("seed")),
        ("steps", metadata.get("step")),
        ("trained on", task.get("sampler") and f"sequences {DRAWN.get(task['sampler'], 'of a sampler of its own')}"),
        ("recipe", ", ".join(f"{name} {value}" for name, value in training.items())),
        ("trained with", ", ".join(f"{name} {value}" for name, value in versions.items())),
        ("proof", entry.verification),
        ("report made", f"{entry.date}, by {entry.versions}"),
    ]
    mechanism = _table(metadata.get("mechanism"))
    if mechanism:
        known.append(("label in the file", f"{mechanism.get('label')} ({mechanism.get('provenance')})"))
    assumed = metadata.get("assumed")
    known += [("assumed", line) for line in assumed] if isinstance(assumed, list) else []
    return [(name, str(value)) for name, value in known if value not in (None, "")]


def accuracy_words(entry: ReportEntry) -> str:
    """Accuracy, and a count missing in training: `It is right at 88.6 % of sampled positions, ...`."""
    from counting_interp.interp.proof.outcome import saw_every_count

    config, verdict = entry.model.config, entry.verdict
    complete = not isinstance(entry.model, CountingTransformer) or saw_every_count(entry.model)
    unseen = "" if complete else f" In training it never saw count {config.L}."
    share = sampled(verdict.accuracy)
    return f"It is right at {share} of sampled positions, on sequences {DRAWN.get(verdict.sampler, '')}.{unseen}"


def _file(path: Path) -> str:
    """The path as given; for a bundled checkpoint its name instead of where it is installed."""
    return f"bundled checkpoint {path.stem}" if path.parent == ZOO else str(path)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def write_report(entries: Sequence[ReportEntry], output: Path, others: Sequence[ReportEntry] = ()) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(output, report_html(entries, others).encode("utf-8"))
    except OSError as error:
        raise InterpError(f"cannot write {printable(str(output))}: {error.strerror}; choose another -o") from error
