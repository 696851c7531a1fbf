"""How often a label is right: of models like this one whose mechanism is known, how many are what the label says.

The counts come from the table of truths (docs/tables/verdict-truths.csv, made by benchmarks/verdict_truths.py). Models
are comparable that got the same label with about the same share, and have as many blocks.
"""

from __future__ import annotations

import csv
from functools import cache

from counting_interp import data

TABLE = data.verdict_odds()
BANDS = (0.7, 0.9)


def odds(label: str, blocks: int, share: float | None) -> tuple[int, int] | None:
    """(right, models) of the truths like this; None where there are none.

    Args:
        label: of the verdict.
        blocks: of the model.
        share: of RC, IC or gated, by the label; None for another label.
    """
    return _counts().get((label, depth(blocks), band(share)))


def depth(blocks: int) -> str:
    return "1" if blocks == 1 else "2-4" if blocks <= 4 else "more"


def band(share: float | None) -> str:
    if share is None:
        return ""
    return f"< {BANDS[0]}" if share < BANDS[0] else f"< {BANDS[1]}" if share < BANDS[1] else f">= {BANDS[1]}"


@cache
def _counts() -> dict[tuple[str, str, str], tuple[int, int]]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            (row["label"], row["blocks"], row["share"]): (int(row["right"]), int(row["models"]))
            for row in csv.DictReader(file)
        }
