"""Proofs of checkpoints, in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counting_interp.interp.cli.many_files import shown
from counting_interp.interp.proof import Certificate, Counterexample, Undecided, prove
from counting_interp.interp.proof.claim import claim
from counting_interp.interp.proof.document import proof_document
from counting_interp.interp.proof.outcome import cell_list
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError, printable
from counting_interp.util.files import write_atomically
from counting_interp.util.text import columns


@dataclass(frozen=True)
class FileProof:
    """The verdict on one checkpoint, and what a reader should know beside it.

    Attributes:
        certificate: the file that was written, and its sha256.
    """

    outcome: Certificate | Counterexample | Undecided
    notes: tuple[str, ...]
    certificate: tuple[Path, str] | None = None

    def to_dict(self, cells: bool = False) -> dict[str, Any]:
        facts = {**self.outcome.to_dict(), "notes": list(self.notes)}
        if self.certificate is not None:
            facts["certificate"] = {"path": str(self.certificate[0]), "sha256": self.certificate[1]}
        return facts | ({"cell_list": cell_list(self.outcome)} if cells else {})


def prove_file(
    path: Path,
    seconds: float,
    max_count: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    certificate: Path | None = None,
    **assume: Any,
) -> FileProof:
    """Read a checkpoint and decide about it.

    Args:
        certificate: where to write the proof, if there is one, for `interp check`.
        assume: what to take for granted of a file without configuration; see `counting_interp.models.checkpoint.read`.
    """
    model = CountingTransformer.load(path, **assume)
    counts = None if max_count is None else min(max_count, model.config.L)
    outcome = prove(model, seconds, progress, counts)
    notes = tuple(_notes(model, outcome))
    if certificate is None:
        return FileProof(outcome, notes)
    if not isinstance(outcome, Certificate):
        return FileProof(outcome, (*notes, "no certificate was written: there is no proof"))
    if "sha256" not in model.metadata:
        raise InterpError(
            "a certificate names weights by the hash that `model.save` writes; this file has none: load it, "
            "save it with CountingTransformer.save, and prove that"
        )
    document = proof_document(model, outcome, progress)
    write_atomically(certificate, json.dumps(document, separators=(",", ":")).encode())
    return FileProof(outcome, notes, (certificate, document["sha256"]))


def _notes(model: CountingTransformer, outcome: Certificate | Counterexample | Undecided) -> list[str]:
    L, notes = model.config.L, []
    if outcome.counts < L:
        notes.append(f"only positions whose true count is at most {outcome.counts} were asked about")
    if not claim(model).shown:
        more = f"; --max-count {L} asks about it, too" if outcome.counts < L else ""
        notes.append(f"its training never showed count {L} (sampler `published`){more}")
    notes += model.metadata.get("assumed", [])
    return [printable(note) for note in notes]


def as_text(path: Path, found: FileProof, cells: bool = False) -> str:
    """One verdict with its reasons, and every cell where asked."""
    outcome = found.outcome
    lines = [f"{shown(path)}: {outcome.verdict}", f"  model     {outcome.model}"]
    if isinstance(outcome, Certificate):
        lines += _certificate(outcome)
    elif isinstance(outcome, Counterexample):
        lines += _counterexample(outcome)
    else:
        margin = "none" if outcome.margin is None else f"{outcome.margin:.4g} on {_row(outcome.closest or ())}"
        lines += [
            f"  because   {outcome.reason}",
            f"  margin    smallest found: {margin}",
            f"  proved    {_cells(outcome)}",
        ]
    if cells:
        lines += _all_cells(outcome)
    lines += [f"  note      {note}" for note in found.notes]
    if found.certificate is not None:
        written, sha = found.certificate
        lines.append(f"  written   {printable(str(written))} (sha256 {sha[:16]}...); `interp check` reads it")
    lines.append(f"  time      {outcome.seconds:.1f} s")
    return "\n".join(lines)


def as_table(found: list[tuple[Path, FileProof]]) -> str:
    """One line per file."""
    return columns([(shown(path), str(item.outcome)) for path, item in found])


def _certificate(outcome: Certificate) -> list[str]:
    tight = outcome.tightest
    lines = [
        f"  claim     {outcome.claim}",
        f"  margin    {outcome.margin:.6g} on {_row(outcome.closest)}, the lowest found",
        f"            proved to exceed {outcome.proved_margin:.6g} everywhere, and rounding in every cell",
        f"  tightest  {tight.where}: margin above {tight.proved:.6g}, rounding below {tight.rounding:.2g}, "
        f"slack {tight.slack:.6g}",
        f"  proof     {_cells(outcome)}; {outcome.identity}",
    ]
    if outcome.quantity is not None:
        lines.append(f"  decided by the {outcome.quantity}:")
    for entry in outcome.margins:
        where = "" if entry.low is None or entry.high is None else f"  in [{entry.low:.6g}, {entry.high:.6g}]"
        lines.append(f"    count {entry.count:>3}  margin {entry.margin:.6g}{where}")
    return lines


def _counterexample(outcome: Counterexample) -> list[str]:
    width = max(len(str(value)) for value in (*outcome.sequence, *outcome.true_counts, *outcome.answers))
    rows = (("sequence ", outcome.sequence), ("true     ", outcome.true_counts), ("model    ", outcome.answers))
    lines = [f"  {name} {' '.join(f'{value:>{width}}' for value in values)}" for name, values in rows]
    counts = ", ".join(map(str, outcome.wrong_counts))
    return [
        *lines,
        f"  margin    {outcome.margin:.4g} for token {outcome.token} at position {outcome.position}, the lowest found",
        f"  wrong     in {outcome.wrong_cells} of {outcome.cells} cells, counts {counts}; {_cells(outcome)}",
    ]


def _cells(outcome: Certificate | Counterexample | Undecided) -> str:
    how = ", ".join(f"{n} by {method}" for method, n in outcome.methods.items())
    return f"{outcome.proved_cells} of {outcome.cells} cells proved right" + (f" ({how})" if how else "")


def _all_cells(outcome: Certificate | Counterexample | Undecided) -> list[str]:
    """One line for each cell, proved ones first."""
    lines = ["  cells     token count position  margin found  proved above  rounding below  slack  how"]
    for cell in cell_list(outcome):
        position = "-" if cell["position"] is None else cell["position"]
        start = f"            {cell['token']:>5} {cell['count']:>5} {position:>8}  {cell['margin']:>12.5g}"
        if "proved" in cell:
            numbers = f"{cell['proved']:>12.5g}  {cell['rounding']:>14.3g}  {cell['slack']:.5g}"
            lines.append(f"{start}  {numbers}  {cell['method']}, {cell['precision']}")
        else:
            lines.append(f"{start}  {'wrong' if cell['wrong'] else 'open'}")
    return lines


def _row(sequence: tuple[int, ...]) -> str:
    return " ".join(map(str, sequence))
