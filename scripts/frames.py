"""The quality of searched frames: the survey behind data/frames.csv.

    python -m scripts.frames 15 16 32 --restarts 3

For each n, measure and d it searches with seeds 0, 1, ... and writes the best value. Constructions look up the smallest
d worth trying. The frame itself is searched again when a model is built, until it is good enough.
"""

from __future__ import annotations

import argparse
import csv
import sys

from counting_interp.data import frames
from counting_interp.models.constructions.frames import MEASURES, search

TABLE = frames()


def main() -> None:
    parser = argparse.ArgumentParser(description="Survey of searched frames")
    parser.add_argument("n", type=int, nargs="+", help="numbers of vectors")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--d", type=int, nargs="+", help="dimensions; all from 2 to n - 1 when absent")
    options = parser.parse_args()
    rows = {(row["measure"], int(row["n"]), int(row["d"])): row for row in _read()}
    for n in options.n:
        for measure in options.measures:
            for d in options.d or range(2, n):
                value = search(n, d, measure, restarts=options.restarts).value
                rows[measure, n, d] = {"measure": measure, "n": str(n), "d": str(d), "value": f"{value:.6f}"}
                print(measure, n, d, f"{value:.6f}", file=sys.stderr, flush=True)
                _write([rows[key] for key in sorted(rows)])


def _read() -> list[dict[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(rows: list[dict[str, str]]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["measure", "n", "d", "value"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
