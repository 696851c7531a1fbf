"""A run's row of the table in plain sentences: its verdict, the evidence, and what argues against it."""

from __future__ import annotations

from typing import Any

from counting_interp.interp.sweep.table import RunRow
from counting_interp.interp.verdict.evidence import objections, whom
from counting_interp.interp.verdict.rule import CASES, SOLVED, Numbers
from counting_interp.interp.verdict.verdict import MEANINGS


def run_words(run: RunRow) -> str:
    """`relation-based: attention compares, ...`, or what an unsolved run leans to."""
    label, case = str(run.measured["verdict_label"]), run.measured.get("verdict_case")
    leans = run.measured.get("verdict_leans")
    if case in CASES:
        return f"{MEANINGS[label]}: {CASES[case]}"
    return MEANINGS[label] + (f"; leans towards {leans}" if leans else "")


def evidence(run: RunRow) -> list[str]:
    """One sentence for each test whose number the table has."""
    kept, with_t, with_s, transfer = (_number(run, f"verdict_{n}") for n in ("kept", "with_t", "with_s", "transfer"))
    directions, share = _number(run, "verdict_directions"), _number(run, "proof_share")
    lines = []
    if kept is not None:
        lines.append(f"Without attention's comparison, {max(0.0, kept):.0%} of the count is left.")
    if with_t is not None and with_s is not None:
        lines.append(f"Told another token s on its self path, a place of t {whom(with_t, with_s)}.")
    if transfer is not None:
        lines.append(f"Another token's count displacement has {transfer:.0%} of the effect of the token's own.")
    if directions is not None:
        many = directions != 1
        lines.append(f"{directions:.0f} direction{'s carry' if many else ' carries'} 95 % of the accuracy.")
    if share is not None:
        wrong, cells = _number(run, "proof_wrong"), _number(run, "proof_cells")
        counted = "" if wrong is None or cells is None else f"; in {wrong:.0f} of {cells:.0f} a wrong answer was found"
        kind = "token and count, for lin also the place"
        lines.append(f"Of its cells ({kind}) {share:.1%} are proved right on every sequence{counted}.")
    return lines


def against(run: RunRow) -> list[str]:
    """What a careful reader would object, as far as the table tells."""
    label, case = str(run.measured["verdict_label"]), run.measured.get("verdict_case")
    names = ("accuracy", "kept", "with_t", "with_s", "transfer")
    found = {name: _number(run, f"verdict_{name}") for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    if len(known) < len(names):
        return []
    if label == "unsolved":
        short = known["accuracy"] < SOLVED
        return [f"{SOLVED:.0%} of positions are needed to call it solved."] if short else []
    lines = objections(label, case, Numbers(slope=1.0, **known))
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _number(run: RunRow, column: str) -> float | None:
    value: Any = run.measured.get(column)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
