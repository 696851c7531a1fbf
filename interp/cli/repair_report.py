"""What a repair changed: accuracy, verdict, what is proved, and how far the weights have moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from counting_interp.interp.proof.repair.files import certificate, unfinished
from counting_interp.interp.proof.repair.run import Repair, Round
from counting_interp.interp.verdict import classify
from counting_interp.models.transformer import CountingTransformer

LISTED = 8  # open cells of a count that are named one by one


@dataclass(frozen=True)
class Side:
    """A model before or after: share of positions right, how it counts (None where that was not asked), what is proved.

    Attributes:
        scores: the verdict's shares, by name.
    """

    accuracy: float
    label: str | None
    scores: dict[str, float]
    verified: Round

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Change:
    """Attributes:
    distance: norm of the change of all weights over the norm of the weights; distances: of each weight.
    """

    before: Side
    after: Side
    distance: float
    distances: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def change(run: Repair, with_verdicts: bool = True) -> Change:
    after = run.model()
    old, new = run.parent.state_dict(), after.state_dict()
    moved = {name: float((new[name] - old[name]).norm()) for name in old}
    sizes = {name: float(old[name].norm()) for name in old}
    whole = torch.tensor(list(moved.values())).norm() / torch.tensor(list(sizes.values())).norm()
    return Change(
        before=_side(run.parent, run.rounds[0], with_verdicts),
        after=_side(after, run.best, with_verdicts),
        distance=float(whole),
        distances={name: moved[name] / sizes[name] for name in old if sizes[name]},
    )


def _side(model: CountingTransformer, verified: Round, with_verdict: bool) -> Side:
    verdict = classify(model) if with_verdict else None
    label = verdict.mechanism.value if verdict else None
    scores = {share.name: share.value for share in verdict.shares} if verdict else {}
    return Side(model.accuracy(), label, scores, verified)


def as_text(name: str, run: Repair, changed: Change) -> str:
    """The result of `interp repair`."""
    before, after, last = changed.before, changed.after, run.rounds[-1]
    lines = [f"{name}: {after.verified.verdict} after {last.number} rounds, {last.steps:,} steps, {last.seconds:.0f} s"]

    def row(what: str, old: str, new: str) -> None:
        lines.append(f"  {what:<9} {old}  ->  {new}")

    row("accuracy", f"{before.accuracy:.2%}", f"{after.accuracy:.2%}")
    if before.label is not None and after.label is not None:
        row("mechanism", _scores(before), _scores(after))
    row("proved", f"{before.verified.proved} of {before.verified.cells} cells", f"{after.verified.proved}")
    row("wrong", f"{before.verified.wrong}", f"{after.verified.wrong}")
    row("margin", _number(before.verified.margin), _number(after.verified.margin))
    parts = ", ".join(f"{short(name)} {value:.1%}" for name, value in changed.distances.items())
    lines.append(f"  moved     {changed.distance:.1%} of the weights' norm ({parts})")
    if run.certificate is not None:
        lines.append(f"  claim     {run.certificate.claim}")
        if run.document is not None:
            lines.append(f"  checked   by others with `interp check {certificate(Path(name))} {name}`")
    else:
        lines += [*_open_lines(run.open_cells), f"  kept      {unfinished(Path(name))}; --resume goes on with it"]
        lines.append(f"  advice    {_advice(run)}")
    return "\n".join(lines)


def short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


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
    lines = []
    for count in np.unique(cells[:, 2]):
        found = cells[cells[:, 2] == count]
        named = [
            f"{token}" + (f" at {position}" if position >= 0 else "") + "*" * int(wrong)
            for position, token, _, wrong in found[:LISTED]
        ]
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        lines.append(f"  open      count {count}: token {', '.join(named)}{more}")
    return [*lines, "            (* a wrong sequence is known)"] if cells[:, 3].any() else lines
