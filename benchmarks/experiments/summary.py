"""The table of docs/language-models.md: two lines for each kind of lesson, from the rows of the whole table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import mean

Row = Mapping[str, str]
TABLE_MARKS = re.compile(r"(<!-- table -->\n).*(<!-- end of table -->)", re.S)
HEAD = ("model", "taught", "runs", "before", "after", "window", "RC", "IC", "gated", "left when frozen")
FAR = 0.5  # share by which own moves the answer, averaged over directions, in the second window of the summary


def cell(value: object) -> str:
    """A value as a cell of a table in docs: floats with four decimals, NaN as an empty cell."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.4f}"
    return str(value)


def insert(page: str, rows: Sequence[Row]) -> str:
    """The page with the table between its two marks."""
    return TABLE_MARKS.sub(lambda marks: f"{marks[1]}\n{summary(rows)}\n{marks[2]}", page)


def summary(rows: Sequence[Row]) -> str:
    """A markdown table with two lines for each kind of lesson, one for each window of `read_windows`.

    A share is the mean over runs, with the lowest and the highest run in brackets.
    """
    kinds: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        kinds.setdefault((row["model"], _taught(row)), {}).setdefault(row["seed"], []).append(row)
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    for (model, taught), seeds in kinds.items():
        first = [runs[0] for runs in seeds.values()]
        before, after = (
            _range([100 * float(row[name]) for row in first], 1) for name in ("accuracy_before", "accuracy")
        )
        common = [model, taught, str(len(seeds)), f"{before} %", f"{after} %"]
        read = [both for runs in seeds.values() if (both := read_windows(runs)) is not None]
        if not read:
            lines.append(f"| {' | '.join([*common, 'none', '', '', '', ''])} |")
        for number in range(2 if read else 0):
            windows = [both[number] for both in read]
            ends = sorted({int(row["last"]) for row in windows})
            shown = f"1 to {ends[0]}" if len(ends) == 1 else f"1 to {ends[0]} ... {ends[-1]}"
            shares = [_range([float(row[name]) for row in windows], 2) for name in ("rc", "ic", "gated")]
            left = _range([share for runs in seeds.values() if (share := frozen(runs)) is not None], 2)
            cells = [*common, shown, *shares, left] if number == 0 else ["", "", "", "", "", shown, *shares, ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def read_windows(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """The first window in which own moves the answer in a usable direction, and the first in which it moves it by FAR;
    None if there is no such window."""
    usable = [row for row in rows if row["measure"] == "window" and row["rc"]]
    far = [row for row in usable if float(row["moves_up"]) + float(row["moves_down"]) >= 2 * FAR]
    return (usable[0], far[0]) if far else None


def frozen(rows: Sequence[Row]) -> float | None:
    """The share of the count left when no listener compares in any block: the larger of both ways to freeze."""
    asked = "question" if rows[0]["form"] == "question" else "list"
    chosen = [row for row in rows if row["measure"] == "freeze" and row["where"] == asked and row["first"] == "1"]
    if not chosen:
        return None
    everywhere = max(chosen, key=lambda row: int(row["last"]))
    return max(float(everywhere["left_by_patterns"]), float(everywhere["left_by_queries"]))


def _taught(row: Row) -> str:
    words = ["running count" if row["form"] == "running" else "question at the end"]
    words += ["random weights"] * (row["weights"] == "random") + ["no start token"] * (row["start_token"] == "0")
    words += ["frozen embeddings"] * (row["embeddings"] == "frozen")
    return ", ".join(words)


def _range(values: Sequence[float], digits: int) -> str:
    """`0.67 (0.60 to 0.72)`, or the only value."""
    if not values:
        return ""
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"
