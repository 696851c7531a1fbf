"""`interp repair`: train a model until it is proved, and say what that changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import FAILED, INTERRUPTED, print_json, progress_bar, warn
from counting_interp.interp.cli.many_files import Assumptions
from counting_interp.util.files import OutputError, check_checkpoint_output
from counting_interp.util.text import percent, sampled

if TYPE_CHECKING:
    import numpy as np

    from counting_interp.interp.proof.repair.run import Repair, Round
    from counting_interp.models.transformer import CountingTransformer

LISTED = 8  # open cells of a count that are named one by one


def repair(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The checkpoint to begin with, or the name of a bundled one.")
    ],
    *,
    output: opt.Checkpoint,
    seconds: Annotated[float, typer.Option("--time", min=0.001, help="Seconds after which no round begins.")] = 300.0,
    seed: opt.Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the repair at -o, if there is one.")] = False,
    overwrite: opt.OverwriteCheckpoint = False,
    json: opt.Json = False,
    assumptions: Assumptions,
) -> None:
    """Train a model on what it gets wrong, until it is proved right on every sequence.

    Proved means in the dtype of its weights. Each round trains on the sequences with the smallest margins and on
    counterexamples, then tries to prove it. -o is written when there is a proof, with the certificate beside it. Until
    then the best model is kept as NAME.unfinished, and --resume continues it. If the time is up before there is a
    proof, the open cells are listed and the exit code is 1.
    """
    if not output.parent.is_dir():
        raise OutputError(output.parent, "does not exist; make this folder first")
    from counting_interp.interp.proof.repair import begun, unfinished

    if begun(output) and not (resume or overwrite):
        there = output if output.exists() else unfinished(output)
        raise OutputError(there, "exists; --resume continues it, --overwrite replaces it")
    path = opt.one_file(file)
    for target in (output, unfinished(output)):
        check_checkpoint_output(target, overwrite=True, inputs=[path])
    from counting_interp.models.transformer import CountingTransformer

    parent = CountingTransformer.load(path, **assumptions.assumed())
    raise typer.Exit(repair_all([(parent, output)], seconds, seed, resume, json))


def repair_all(
    models: list[tuple[CountingTransformer, Path]], seconds: float, seed: int, resume: bool, json: bool
) -> int:
    """Repair each into its file and print the outcome. Returns the exit code."""
    from counting_interp.interp.proof.repair import Interrupted, history
    from counting_interp.models.transformer import CountingTransformer

    entries, proved = [], True
    for parent, output in models:
        try:
            run = _repair_with_a_bar(parent, output, seconds, seed, resume)
        except Interrupted as interruption:
            warn(f"{interruption} (the same command with --resume)")
            return INTERRUPTED
        if run is None:
            before = CountingTransformer.load(output).metadata["repair"]
            entries.append({"path": str(output), "repair": before})
            text = f"{output}: certified before, and its certificate holds; nothing is left to repair"
        else:
            changed = change(run)
            entries.append({"path": str(output), "repair": history(run), **asdict(changed)})
            text, proved = _as_text(str(output), run, changed), proved and run.certified
        if not json:
            typer.echo(text)
    if json:
        print_json(entries)
    return 0 if proved else FAILED


def _repair_with_a_bar(
    parent: CountingTransformer, output: Path, seconds: float, seed: int, resume: bool
) -> Repair | None:
    from counting_interp.interp.proof.repair import progress_line, repair_until

    with progress_bar() as bar:
        task = bar.add_task("reading", total=1.0)

        def show(stage: str, share: float) -> None:
            bar.update(task, description=stage, completed=share)

        def say(last: Round) -> None:
            bar.console.print(f"round {last.number}: {progress_line(last)}", markup=False, highlight=False)

        return repair_until(parent, output, seconds, seed, resume, show, say)


@dataclass(frozen=True)
class Side:
    """A model before or after: share of positions right, how it counts, what is proved.

    Attributes:
        scores: the verdict's shares, by name.
    """

    accuracy: float
    label: str
    scores: dict[str, float]
    verified: Round


@dataclass(frozen=True)
class Change:
    """What a repair changed.

    Attributes:
        distance: norm of the change of all weights over the norm of the weights; distances: of each weight.
    """

    before: Side
    after: Side
    distance: float
    distances: dict[str, float]


def change(run: Repair) -> Change:
    """Compare the parent with the best model."""
    import torch

    after = run.model()
    old, new = run.parent.state_dict(), after.state_dict()
    moved = {name: float((new[name] - old[name]).norm()) for name in old}
    sizes = {name: float(old[name].norm()) for name in old}
    whole = torch.tensor(list(moved.values())).norm() / torch.tensor(list(sizes.values())).norm()
    return Change(
        before=_side(run.parent, run.rounds[0]),
        after=_side(after, run.best),
        distance=float(whole),
        distances={name: moved[name] / sizes[name] for name in old if sizes[name]},
    )


def _side(model: CountingTransformer, verified: Round) -> Side:
    from counting_interp.interp.verdict import classify

    verdict = classify(model)
    shares = {share.name: share.value for share in verdict.shares}
    return Side(model.accuracy(), verdict.mechanism.value, shares, verified)


def _as_text(name: str, run: Repair, changed: Change) -> str:
    """The result of `interp repair`."""
    from counting_interp.interp.proof.repair import certificate_path, unfinished

    before, after, last = changed.before, changed.after, run.rounds[-1]
    lines = [f"{name}: {after.verified.verdict} after {last.number} rounds, {last.steps:,} steps, {last.seconds:.0f} s"]

    def row(what: str, old: str, new: str) -> None:
        lines.append(f"  {what:<9} {old}  ->  {new}")

    row("accuracy", sampled(before.accuracy), sampled(after.accuracy))
    row("mechanism", _scores(before), _scores(after))
    row("proved", *(f"{side.verified.proved} of {side.verified.cells} cells" for side in (before, after)))
    row("wrong", f"{before.verified.wrong}", f"{after.verified.wrong}")
    row("margin", _number(before.verified.margin), _number(after.verified.margin))
    parts = ", ".join(f"{name.rsplit('.', 1)[-1]} {percent(value)}" for name, value in changed.distances.items())
    lines.append(f"  moved     {percent(changed.distance)} of the weights' norm ({parts})")
    if run.certificate is not None:
        lines.append(f"  claim     {run.certificate.claim}")
        if run.document is not None:
            lines.append(f"  checked   by others with `interp check {certificate_path(Path(name))} {name}`")
    else:
        lines += [*_open_lines(run.open_cells), f"  kept      {unfinished(Path(name))}; --resume continues it"]
        lines.append(f"  advice    {_advice(run)}")
    return "\n".join(lines)


def _scores(side: Side) -> str:
    return f"{side.label} ({', '.join(f'{name} {value:.2f}' for name, value in side.scores.items())})"


def _advice(run: Repair) -> str:
    """What to try next: rounds that still gain cells need time, others a larger model."""
    shares = [entry.proved / entry.cells for entry in run.rounds]
    if len(shares) < 3 or shares[-1] > max(shares[: len(shares) // 2]):
        return "more time (--time): rounds still prove more cells than before"
    config = run.config
    wider = f"d (now {config.d}) and p (now {config.p})"
    return f"a model with larger {wider}, or another seed: the last rounds proved no more cells than those before"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _open_lines(cells: np.ndarray) -> list[str]:
    """Which cells are not proved, count by count; an asterisk marks those known to be wrong."""
    from counting_interp.models.task import named

    lines = []
    for count in sorted(set(cells[:, 2].tolist())):
        here = cells[cells[:, 2] == count]
        each = [
            named(int(token)) + (f" at {position}" if position >= 0 else "") + "*" * int(wrong)
            for position, token, _, wrong in here[:LISTED]
        ]
        more = f" and {len(here) - LISTED} more" if len(here) > LISTED else ""
        lines.append(f"  open      count {count}: token {', '.join(each)}{more}")
    return [*lines, "            (* a wrong sequence is known)"] if cells[:, 3].any() else lines
