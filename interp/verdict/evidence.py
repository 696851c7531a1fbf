"""The numbers as sentences, the plain ones first: what each test says, and what argues against the label."""

from __future__ import annotations

from collections.abc import Iterator

from counting_interp.interp.verdict.measure import Measures
from counting_interp.interp.verdict.rule import FOLLOWS, LOST, SOLVED, SURVIVES, TRANSFERS, Numbers, Ruling
from counting_interp.probes.cue_conflict import Flattening
from counting_interp.probes.readout import Readout
from counting_interp.util.text import two_places


def evidence(measures: Measures, ruling: Ruling) -> tuple[str, ...]:
    """One line each: flattening (also of all blocks) and cue conflict (for each block), transfer, directions."""
    blocks = len(measures.conflicts)
    lines = [f"with no block comparing, {_left(measures.flattened)} is left"] * (blocks > 1)
    for conflict, flattening in zip(measures.conflicts, measures.flattenings, strict=True):
        where = f" of block {conflict.layer + 1}" if blocks > 1 else ""
        lines.append(f"without its comparison, attention{where} leaves {_left(flattening)}")
        with_t, with_s = conflict.follows
        lines.append(
            f"told another token s on its self path{where}, a place of t {whom(with_t, with_s)}: the answer changes "
            f"by {two_places(with_t)} per copy of t and by {two_places(with_s)} per copy of s"
        )
    read = measures.readout
    lines.append(
        f"another token's count displacement has {ruling.numbers.transfer:.0%} of the effect of the token's own"
    )
    lines.append(f"{_directions(read)} to keep 95 % of the accuracy (T = {read.T})")
    return tuple(lines)


def _left(flattening: Flattening) -> str:
    return (
        "nothing that could be measured" if flattening.kept is None else f"{max(0.0, flattening.kept):.0%} of the count"
    )


def against(measures: Measures, ruling: Ruling) -> tuple[str, ...]:
    """What a careful reader would object."""
    numbers, counting = ruling.numbers, measures.counting
    if ruling.label == "unsolved":
        reasons = []
        if numbers.accuracy < SOLVED:
            reasons.append(f"{numbers.accuracy:.1%} of positions are right, {SOLVED:.0%} are needed to call it solved")
        else:
            reasons.append(f"its answers hardly change with the count (by {numbers.slope:.2f} per copy)")
        return tuple(reasons)
    lines = list(objections(ruling.label, ruling.case, numbers))
    missing = [k for k, right in enumerate(counting.by_count, 1) if right is not None and right < 0.5]
    if missing:
        lines.append(f"it is mostly wrong where a token occurs {' or '.join(map(str, missing))} times")
    return tuple(lines)


def objections(label: str, case: str | None, numbers: Numbers) -> Iterator[str]:
    """Those against the verdict on a solved model that follow from its numbers alone."""
    if numbers.accuracy < 0.98:
        yield f"it errs at {1 - numbers.accuracy:.1%} of positions, which the mechanism does not explain"
    if label == "RC" and numbers.with_t < 0.7:
        yield (
            f"with s on the self path only {max(numbers.with_t, 0):.0%} of the count is left: counts of different "
            "tokens are written at different places, or in more than one way"
        )
    if label == "RC" and numbers.transfer < TRANSFERS:
        yield "displacements transfer between some tokens only: the count is written in groups of tokens"
    if label == "IC" and numbers.kept < 0.8:
        yield f"attention helps: without its comparison {1 - numbers.kept:.0%} of the count is lost"
    if label == "IC" and numbers.transfer > FOLLOWS:
        yield "displacements transfer between tokens, more than separate units would let"
    if case == "gated" and numbers.transfer > FOLLOWS:
        yield "part of the count is written alike for several tokens"
    if LOST < numbers.kept < SURVIVES:
        yield "the count hangs on attention's comparison in part"


def whom(with_t: float, with_s: float) -> str:
    if with_t < FOLLOWS and with_s < FOLLOWS:
        return "counts neither"
    if with_t >= FOLLOWS and with_s >= FOLLOWS:
        return "counts both in part"
    return "goes on counting t" if with_t >= FOLLOWS else "counts s"


def _directions(read: Readout) -> str:
    n = read.directions
    return f"{n} direction{'s' if n > 1 else ''} of the pre-activations {'are' if n > 1 else 'is'} enough"
