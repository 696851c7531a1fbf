"""A run's row of the table in plain sentences: its verdict, the evidence, and what argues against it."""

from __future__ import annotations

from typing import Any

from counting_interp.interp.sweep.table import RunRow
from counting_interp.interp.verdict.verdict import Verdict


def run_words(verdict: Verdict) -> str:
    """What the mechanism means, or what an unsolved run leans to."""
    return verdict.mechanism.words + (f" It leans towards {verdict.leans}." if verdict.leans else "")


def evidence(run: RunRow, verdict: Verdict) -> list[str]:
    """One sentence for each kind of number that the table has."""
    lines = [f"Shares: {', '.join(map(str, verdict.shares))}."] if verdict.shares else []
    if not verdict.shares:
        lines.append("Judged by the rule of version 0.2, which measured no shares.")
    share = _number(run, "proof_share")
    if share is not None:
        wrong, cells = _number(run, "proof_wrong"), _number(run, "proof_cells")
        counted = "" if wrong is None or cells is None else f"; in {wrong:.0f} of {cells:.0f} a wrong answer was found"
        counts = _number(run, "proof_counts")
        kind = "token and count" if counts is None else f"token and count up to {counts:.0f}"
        lines.append(f"Of its cells ({kind}, for lin also the position) {share:.1%} are proved right{counted}.")
        precision = run.measured.get("proof_precision")
        if precision and counts is not None:
            from counting_interp.interp.proof.claim import Claim

            lines.append(Claim(run.cell.T, run.cell.L, int(counts), True, str(precision)).sentence(str(precision)))
    return lines


def against(verdict: Verdict) -> list[str]:
    """What a careful reader would object, as far as the table tells."""
    lines = [verdict.reason] if verdict.reason else list(verdict.against)
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _number(run: RunRow, column: str) -> float | None:
    value: Any = run.measured.get(column)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
