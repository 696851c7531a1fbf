"""`interp prove`: right on every sequence, or a wrong one. `interp check`: does a certificate prove what it says?

The check needs neither torch nor the prover.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import DONE, FAILED, print_json, stage_bar, warn
from counting_interp.interp.cli.many_files import Assumptions, expand, finish, for_each, shown
from counting_interp.util.errors import CheckpointError, InterpError, printable
from counting_interp.util.files import check_output, write_atomically
from counting_interp.util.text import columns

if TYPE_CHECKING:
    from counting_interp.interp.proof.checker.check import Checked
    from counting_interp.interp.proof.outcome import Outcome
    from counting_interp.models.transformer import CountingTransformer

CERTIFICATE = b'{"format":"counting-interp certificate"'  # how each one begins


def prove(
    files: opt.Files,
    *,
    json: opt.Json = False,
    seconds: Annotated[float, typer.Option("--time", min=0.001, help="Seconds for each checkpoint.")] = 60.0,
    max_count: Annotated[
        int | None, typer.Option("--max-count", min=1, help="Ask only about positions with at most this true count.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="CERT.json", help="Write the proof here, for `interp check`."),
    ] = None,
    overwrite: opt.Overwrite = False,
    cells: Annotated[bool, typer.Option("--cells", help="Show every cell: margin, bound, rounding, slack.")] = False,
    assumptions: Assumptions,
) -> None:
    """Prove that a checkpoint is right on every sequence, or show one that it gets wrong.

    Certified, refuted (exit code 1), or undecided within the time. A file that cannot be read is reported, the others
    are proved or refuted, and the exit code is 3.
    """
    alone = len(expand(files)) == 1
    if certificate is not None:
        if not alone:
            raise typer.BadParameter("takes one checkpoint at a time", param_hint="--certificate")
        check_output(certificate, files, overwrite, lambda head: head.startswith(CERTIFICATE))
    assumed = assumptions.assumed()

    def work(path: Path) -> FileProof:
        if not alone:
            return prove_file(path, seconds, max_count, **assumed)
        with stage_bar("reading") as progress:
            return prove_file(path, seconds, max_count, progress, certificate, **assumed)

    outcomes = for_each(files, work, "" if alone else "proving")  # one file has a bar of its stages
    refuted = any(outcome.result and outcome.result.outcome.verdict == "refuted" for outcome in outcomes)
    finish(
        outcomes,
        as_json=json,
        facts=lambda proof: proof.to_dict(cells),
        one=lambda path, proof: _as_text(path, proof, cells),
        several=lambda proofs: columns([(shown(path), str(proof.outcome)) for path, proof in proofs]),
        failure=FAILED if refuted else DONE,
    )


@dataclass(frozen=True)
class FileProof:
    """The verdict on one checkpoint.

    Attributes:
        notes: sentences that qualify it.
        certificate: the file that was written, and its sha256.
    """

    outcome: Outcome
    notes: tuple[str, ...]
    certificate: tuple[Path, str] | None = None

    def to_dict(self, cells: bool = False) -> dict[str, Any]:
        facts = {**self.outcome.to_dict(), "notes": list(self.notes)}
        if self.certificate is not None:
            facts["certificate"] = {"path": str(self.certificate[0]), "sha256": self.certificate[1]}
        return facts | ({"cell_list": self.outcome.cell_list()} if cells else {})


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
        assume: of a file without configuration; see `counting_interp.models.checkpoint.read`.

    Raises:
        CheckpointError: if the file cannot be read.
        InterpError: if its model cannot be proved, or its certificate cannot be written.
    """
    from counting_interp.interp.proof import Certificate, prove
    from counting_interp.interp.proof.document import proof_document
    from counting_interp.models.transformer import CountingTransformer

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
    write_atomically(certificate, dumps(document, separators=(",", ":")).encode())
    return FileProof(outcome, notes, (certificate, document["sha256"]))


def _notes(model: CountingTransformer, outcome: Outcome) -> list[str]:
    from counting_interp.interp.proof.outcome import saw_every_count

    L, notes = model.config.L, []
    if outcome.counts < L:
        notes.append(f"only positions whose true count is at most {outcome.counts} were asked about")
    if not saw_every_count(model):
        more = f"; --max-count {L} asks about it, too" if outcome.counts < L else ""
        notes.append(f"its training never showed count {L} (sampler `published`){more}")
    notes += model.metadata.get("assumed", [])
    return [printable(note) for note in notes]


def _as_text(path: Path, proof: FileProof, cells: bool) -> str:
    """One verdict with its reasons, and every cell where asked."""
    outcome = proof.outcome
    lines = [f"model     {outcome.model}", *outcome.lines(), *(_cell_lines(outcome) if cells else ())]
    lines += [f"note      {note}" for note in proof.notes]
    if proof.certificate is not None:
        written, sha = proof.certificate
        lines.append(f"written   {printable(str(written))} (sha256 {sha[:16]}...); `interp check` reads it")
    lines.append(f"time      {outcome.seconds:.1f} s")
    return "\n".join([f"{shown(path)}: {outcome.verdict}", *(f"  {line}" for line in lines)])


def _cell_lines(outcome: Outcome) -> list[str]:
    """One line for each cell, proved ones first."""
    lines = ["cells     token count position  margin found  proved above  rounding below  slack  how"]
    for cell in outcome.cell_list():
        position = "-" if cell["position"] is None else cell["position"]
        start = f"          {cell['token']:>5} {cell['count']:>5} {position:>8}  {cell['margin']:>12.5g}"
        if "proved" in cell:
            numbers = f"{cell['proved']:>12.5g}  {cell['rounding']:>14.3g}  {cell['slack']:.5g}"
            lines.append(f"{start}  {numbers}  {cell['method']}, {cell['precision']}")
        else:
            lines.append(f"{start}  {'wrong' if cell['wrong'] else 'open'}")
    return lines


def check(
    certificate: Annotated[Path, typer.Argument(metavar="CERT.json", help="What `interp prove --certificate` wrote.")],
    checkpoint: Annotated[
        Path, typer.Argument(metavar="FILE", help="The checkpoint that it is about, or the name of a bundled one.")
    ],
    json: opt.Json = False,
) -> None:
    """Check a certificate against the weights it names, with integers alone.

    A certificate that proves nothing is refused (exit code 1); a checkpoint that cannot be read gives 3.
    """
    from counting_interp.interp.proof.checker.check import check as checked
    from counting_interp.interp.proof.checker.weights import Refused, Unreadable

    if not certificate.exists():
        raise CheckpointError(certificate, "does not exist; `interp prove CKPT --certificate CERT.json` writes one")
    checkpoint = opt.one_file(checkpoint)
    files = {"path": str(checkpoint), "certificate": str(certificate)}
    try:
        with stage_bar("checking") as progress:
            result = checked(certificate, checkpoint, lambda share: progress("checking", share))
    except Unreadable as reason:
        raise CheckpointError(checkpoint, str(reason)) from None
    except Refused as reason:
        if json:
            print_json([{**files, "holds": False, "reason": str(reason)}])
        warn(f"{printable(str(certificate))}: refused, {printable(str(reason))}")
        raise typer.Exit(FAILED) from None
    if json:
        print_json([{**files, "holds": True, "claim": result.claim, **dataclasses.asdict(result)}])
    else:
        typer.echo(_checked(printable(str(certificate)), shown(checkpoint), result))


def _checked(certificate: str, checkpoint: str, result: Checked) -> str:
    model = result.model
    name = model["mixing"] + ("+sftm" if model["softmax"] else "")
    return "\n".join(
        [
            f"{certificate}: holds for {checkpoint}",
            f"  claim     {result.claim}",
            f"  model     {name}, T={model['T']}, L={model['L']}, d={model['d']}, p={model['p']}",
            f"  margin    above {result.margin:.6g} everywhere, and above rounding by {result.slack:.6g} or more",
            f"  proof     {result.cells} cells, {result.nodes} nodes, checked with integers alone",
        ]
    )
