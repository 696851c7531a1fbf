"""The numbers as sentences: one line for each test, and what argues against the label."""

from __future__ import annotations

from interp.classify.measure import Counting, Measures
from interp.classify.rule import GATED, PURE, Ruling, is_solved, survivors
from probes.cue_conflict import CueConflict


def evidence(measures: Measures, ruling: Ruling) -> tuple[str, ...]:
    """One line each: accuracy, cue conflict (for each block), transfer, rank, attention."""
    lines = [_accuracy(measures.counting)]
    blocks = len(measures.conflicts)
    for conflict in measures.conflicts:
        with_t, with_s = conflict.follows
        where = f" in block {conflict.layer}" if blocks > 1 else ""
        lines.append(
            f"cue conflict{where}: with s on the self path of t, the prediction follows the count of t by {with_t:.2f} "
            f"and that of s by {with_s:.2f} per unit; {_surviving(measures, conflict)}"
        )
    read = measures.readout
    lines.append(f"transfer: another token's count displacement has {ruling.transfer:.2f} of the effect of its own")
    lines.append(
        f"rank: {read.directions} of {int(read.ranks[-1])} directions keep 95 % of the accuracy (T = {read.T}; one "
        f"keeps {float(read.rank_accuracy[:2][-1]):.0%})"
    )
    if measures.separation is not None:
        lines.append(f"attention: scores rank equal above different tokens with AUC {measures.separation:.2f}")
    return tuple(lines)


def against(measures: Measures, ruling: Ruling) -> tuple[str, ...]:
    """What a careful reader would object."""
    if ruling.label == "unsolved":
        return ()
    lines = []
    counting, read = measures.counting, measures.readout
    if counting.accuracy < 0.98 and counting.by_count[:-1].mean() < 0.98:
        lines.append(f"it errs at {1 - counting.accuracy:.1%} of positions, which the mechanism does not explain")
    if not counting.knows_largest or counting.by_count[-1] < 0.5:
        lines.append(f"count {len(counting.by_count)} is left out: the model was not trained on it, or never says it")
    if ruling.label == "RC" and ruling.surviving < 0.7:
        lines.append(
            f"only {ruling.surviving:.0%} of token pairs keep the count in the swap: counts are written in more than "
            "one way, or the swap leads far from what the model has seen"
        )
    if ruling.label == "RC" and read.directions > max(4, read.T // 4):
        lines.append(
            f"full accuracy needs {read.directions} directions: token-specific corrections beside a shared one"
        )
    if ruling.label == "IC" and ruling.transfer > 0.4:
        lines.append(
            f"displacements transfer between tokens by {ruling.transfer:.2f}, more than separate units would let"
        )
    if ruling.label == "IC" and ruling.intervals["RC"][1] > 1 - PURE:
        lines.append(f"the RC score may be as high as {ruling.intervals['RC'][1]:.2f}")
    if ruling.label == "mixed" and ruling.comparison == "attention":
        lines.append("attention compares, as in RC, but the count is not read from a direction that all tokens share")
    separation = measures.separation
    if ruling.label == "RC" and separation is not None and abs(separation - 0.5) < 0.1:
        lines.append("attention scores hardly separate equal from different tokens")
    return tuple(lines)


def _accuracy(counting: Counting) -> str:
    worst = int(counting.by_count.argmin())
    enough = "" if is_solved(counting) else ": too little to ask how it counts"
    return (
        f"accuracy: {counting.accuracy:.2%} of positions; {float(counting.by_count[worst]):.0%} at its worst count, "
        f"{worst + 1}{enough}"
    )


def _surviving(measures: Measures, conflict: CueConflict) -> str:
    survives, _, _, kept = survivors(conflict.slopes, measures.conflicts[0].unswapped_slope).mean(0).tolist()
    gated = kept < GATED and is_solved(measures.counting)
    return f"{survives:.0%} of pairs keep the count" + (": it is gated by the identity there" if gated else "")
